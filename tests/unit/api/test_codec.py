"""JSON to typed objects and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from hypercobalt.api import codec
from hypercobalt.api.conditions import Condition
from hypercobalt.api.coordination import Event, EventSeries, Lease, LeaseSpec
from hypercobalt.api.eviction import Eviction, EvictionSpec
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import Migration, MigrationSpec
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.times import micro_time

NOW = datetime(2026, 1, 1, 12, 0, 0, 123_000, tzinfo=UTC)


def test_realistic_object_survives_the_round_trip(sample: bytes) -> None:
    obj = codec.decode(sample, Hypervisor)
    again = codec.to_builtins(obj)
    assert json.loads(codec.encode(obj)) == again
    expected = json.loads(sample)
    del expected["spec"]["allowedProjects"]  # empty is the same as absent
    expected["spec"]["overcommit"]["cpu"] = 2.0
    assert again == expected
    assert codec.decode(codec.encode(obj), Hypervisor) == obj


def test_unset_fields_are_not_written_and_set_ones_are() -> None:
    spec = HypervisorSpec(reboot=False, maintenance="")
    tree = codec.to_builtins(Hypervisor(metadata=ObjectMeta(name="n"), spec=spec))
    assert tree == {
        "apiVersion": "kvm.cloud.sap/v1",
        "kind": "Hypervisor",
        "metadata": {"name": "n"},
        "spec": {"reboot": False, "maintenance": ""},
    }


def test_required_empty_spec_is_written() -> None:
    tree = codec.to_builtins(Migration(metadata=ObjectMeta(name="n"), spec=MigrationSpec()))
    assert tree["spec"] == {}


def test_time_is_written_without_and_micro_time_with_six_digits() -> None:
    event = Event(
        metadata=ObjectMeta(name="e", creationTimestamp=NOW),
        eventTime=micro_time(NOW.replace(microsecond=0)),
        deprecatedLastTimestamp=NOW,
        series=EventSeries(count=2, lastObservedTime=micro_time(NOW)),
    )
    tree = json.loads(codec.encode(event))
    assert tree["metadata"]["creationTimestamp"] == "2026-01-01T12:00:00Z"
    assert tree["deprecatedLastTimestamp"] == "2026-01-01T12:00:00Z"
    assert tree["eventTime"] == "2026-01-01T12:00:00.000000Z"
    assert tree["series"]["lastObservedTime"] == "2026-01-01T12:00:00.123000Z"


def test_times_in_lists_are_written_in_utc() -> None:
    condition = Condition(
        type="Ready",
        status="True",
        reason="R",
        message="",
        lastTransitionTime=NOW.astimezone(timezone(timedelta(hours=2))),
    )
    tree = json.loads(codec.encode(Hypervisor(status=HypervisorStatus(conditions=(condition,)))))
    assert tree["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    "text",
    ["2026-01-01T12:00:00Z", "2026-01-01T12:00:00.000000Z", "2026-01-01T14:00:00+02:00"],
)
def test_lease_time_is_read_in_any_form_and_written_in_one(text: str) -> None:
    lease = codec.decode(json.dumps({"spec": {"renewTime": text}}).encode(), Lease)
    assert lease.spec.renewTime == NOW.replace(microsecond=0)
    assert b'"2026-01-01T12:00:00.000000Z"' in codec.encode(lease)


def test_time_without_zone_is_refused_with_the_name_of_the_object() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - what is tested
    obj = Hypervisor(metadata=ObjectMeta(name="node1", creationTimestamp=naive))
    with pytest.raises(codec.EncodeError, match=r"Hypervisor node1: .*no time zone"):
        codec.encode(obj)


def test_values_that_only_the_schema_forbids_are_read() -> None:
    data = json.dumps(
        {
            "spec": {"hypervisor": "", "reason": "", "trigger": "FromTheFuture", "new": [1]},
            "status": {"instances": [{"id": "", "phase": "Teleporting", "attempts": -1}]},
        }
    ).encode()
    eviction = codec.decode(data, Eviction)
    assert eviction.spec == EvictionSpec(hypervisor="", reason="", trigger="FromTheFuture")
    assert eviction.status.instances[0].phase == "Teleporting"


def test_bad_quantity_does_not_stop_the_object() -> None:
    data = b'{"status":{"capacity":{"cpu":"lots","memory":8,"disk":1.5}}}'
    capacity = codec.decode(data, Hypervisor).status.capacity
    assert capacity["memory"] == Quantity("8")
    assert capacity["disk"] == Quantity("1500m")
    assert b'"lots"' in codec.encode(codec.decode(data, Hypervisor))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"kind": "Hypervisor", "metadata": {"name": "node1"}, "status": {"numInstances": "x"}},
            r"^Hypervisor node1: Expected `int \| null`, got `str` - at `\$.status.numInstances`",
        ),
        (
            {"metadata": {"name": "node1"}, "status": {"capacity": {"cpu": True}}},
            r"^Hypervisor node1: Expected a quantity, got `bool` - at `\$.status.capacity",
        ),
        (
            {"metadata": {"namespace": "ns", "name": 5}},
            r"^Hypervisor: Expected `str`, got `int` - at `\$.metadata.name`",
        ),
    ],
)
def test_wrong_shape_is_refused_naming_object_and_field(data: object, message: str) -> None:
    with pytest.raises(codec.DecodeError, match=message):
        codec.decode(json.dumps(data).encode(), Hypervisor)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b"{} {}", b"nul"])
def test_document_that_is_no_object_is_refused_naming_the_kind(data: bytes) -> None:
    with pytest.raises(codec.DecodeError, match=r"^Hypervisor: "):
        codec.decode(data, Hypervisor)


def test_bad_micro_time_names_the_field() -> None:
    with pytest.raises(codec.DecodeError, match=r"^Lease ns/l: time 'soon'.*spec.renewTime"):
        codec.decode(
            b'{"metadata":{"namespace":"ns","name":"l"},"spec":{"renewTime":"soon"}}', Lease
        )
    with pytest.raises(codec.DecodeError, match=r"Expected a time.*spec.renewTime"):
        codec.decode(b'{"spec":{"renewTime":5}}', Lease)


def test_decoders_are_made_once_and_take_raw_items(sample: bytes) -> None:
    assert codec.decoder(Hypervisor) is codec.decoder(Hypervisor)
    assert codec.decode(msgspec.Raw(sample), Hypervisor) == codec.decode(sample, Hypervisor)


def test_lease_without_times_is_written_without_them() -> None:
    tree = codec.to_builtins(Lease(spec=LeaseSpec(holderIdentity="me")))
    assert tree["spec"] == {"holderIdentity": "me"}
