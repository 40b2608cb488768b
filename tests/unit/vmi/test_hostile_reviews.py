"""Admission bears whatever is sent: it raises nothing, and takes as long as there is to read."""

from __future__ import annotations

import json
import random
import time
from typing import Final, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.vmi.instances import CLUSTER, NOW, UUID, fields, instance, review, stored
from tests.unit.vmi.verdicts import recorded

from hypercobalt.api.kubevirt.schema import fields as schema_fields
from hypercobalt.api.kubevirt.schema import virtual_machine_instance
from hypercobalt.vmi import admission
from hypercobalt.vmi.review import Json, JsonObject, RequestUser, ReviewRefusal

HANDLER: Final = RequestUser("system:serviceaccount:kubevirt:kubevirt-handler", node="host-a")
NAMES: Final = sorted(
    {
        path.rpartition(".")[2].rstrip("[]{}")
        for path, _ in schema_fields(virtual_machine_instance())
    }
)
SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["1Gi", "-1", "0", "q35", "virtio", "Paused", "1e999", "\ud800", "a" * 99]),
)
VALUES: Final = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), below, max_size=4)
    ),
    max_leaves=12,
)
PLACES: Final = ["metadata", "spec", "status"]


def judge(sent: JsonObject, old: JsonObject | None, user: RequestUser) -> None:
    """Both stages, each on its own: the second one may see what the first one has not."""
    asked = review(sent, old, user)
    made = admission.mutate(asked, CLUSTER, now=NOW, uuid=UUID)
    admission.validate(asked, CLUSTER)
    if not isinstance(made, ReviewRefusal):
        admission.validate(review(made, old, user), CLUSTER)


@given(st.dictionaries(st.sampled_from(PLACES), VALUES), st.none() | st.just({}))
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_wild_object_raises_nothing(sent: JsonObject, old: JsonObject | None) -> None:
    judge(sent, old, RequestUser("jane"))
    judge(sent, sent if old is None else old, HANDLER)


@given(st.integers(0, 10**6), VALUES)
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_object_with_one_wild_value_raises_nothing(seed: int, value: Json) -> None:
    chosen = random.Random(seed)  # noqa: S311 - nothing secret
    sent = cast("JsonObject", json.loads(json.dumps(chosen.choice(recorded("grid")).sent)))
    at: Json = sent
    while isinstance(at, (dict, list)) and at:
        key = chosen.choice(list(at) if isinstance(at, dict) else list(range(len(at))))
        inner: Json = at[key]  # type: ignore[call-overload,index]
        if not isinstance(inner, (dict, list)) or chosen.random() < 0.2:
            at[key] = value  # type: ignore[call-overload,index]
            break
        at = inner
    judge(sent, None, RequestUser("jane"))
    judge(sent, stored(instance()), HANDLER)


def deep(levels: int, *, lists: bool) -> Json:
    value: Json = "x"
    for _ in range(levels):
        value = [value] if lists else {"spec": value}
    return value


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "objects"])
@pytest.mark.parametrize(
    "place",
    [
        "spec",
        "status",
        "metadata",
        "metadata__labels",
        "spec__domain__clock__deep",
        "spec__domain__devices__disks",
        "spec__nodeSelector",
        "status__conditions",
    ],
)
def test_deep_nesting_is_not_followed(place: str, *, lists: bool) -> None:
    sent = instance(**{place: deep(20_000, lists=lists)})
    judge(sent, None, RequestUser("jane"))
    judge(sent, sent, RequestUser("jane"))
    judge(sent, instance(**{place: deep(20_000, lists=lists)}), HANDLER)


def test_ten_thousand_disks_are_refused_as_too_many() -> None:
    disks: list[Json] = [{"name": f"d{n}"} for n in range(10_000)]
    volumes: list[Json] = [{"name": f"v{n}"} for n in range(10_000)]
    sent = instance(spec__domain__devices__disks=disks, spec__volumes=volumes)
    assert fields(sent) == ["spec.domain.devices.disks", "spec.volumes"]


def test_ten_thousand_items_of_an_unbounded_list_are_judged_in_bounded_time() -> None:
    features: list[Json] = [{"name": f"f{n}", "policy": "none"} for n in range(10_000)]
    ports: list[Json] = [{"name": f"p{n}", "port": 0} for n in range(10_000)]
    nic: list[Json] = [{"name": "default", "masquerade": {}, "ports": ports}]
    sent = instance(spec__domain__cpu={"features": features}, spec__domain__devices__interfaces=nic)
    start = time.process_time()
    found = fields(sent)
    assert time.process_time() - start < 5  # seconds; 0.3 on an idle machine
    assert len(found) == 20_000


def test_three_mebibytes_are_judged_in_bounded_time() -> None:
    labels: JsonObject = {f"k{n}": "v" * 20 for n in range(90_000)}
    sent = instance(
        spec__nodeSelector=labels,
        spec__domain__firmware__serial="x" * 500_000,
        spec__tolerations=[{"key": "a" * 100} for _ in range(5_000)],
    )
    assert len(json.dumps(sent)) > 3 * 1024**2
    start = time.process_time()
    fields(sent)
    assert time.process_time() - start < 5
