"""Which Hypervisor a host of the compute service belongs to."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import NOW, hypervisor

from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.compute.model import Host
from hypercobalt.operator.lifecycle.claims import owner, wants_host
from hypercobalt.operator.shared.hypervisors import short_names
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL

SERVICE = "service-1"
HOST = Host("kvm-1", "hypervisor-1", SERVICE, enabled=True)


def claimant(
    name: str,
    *,
    days: int = 0,
    holds: str | None = None,
    label: str = "",
    lifecycle: bool = True,
) -> Hypervisor:
    """A Hypervisor that is some days old."""
    made = hypervisor(
        spec=HypervisorSpec(lifecycleEnabled=lifecycle),
        labels={HOSTNAME_LABEL: label or name},
        status=HypervisorStatus(serviceId=holds),
    )
    meta = replace(
        made.metadata, name=name, uid=f"uid-{name}", creationTimestamp=NOW - timedelta(days=days)
    )
    return replace(made, metadata=meta)


@pytest.mark.parametrize(
    ("spec", "holds", "expected"),
    [
        pytest.param(HypervisorSpec(lifecycleEnabled=True), None, True, id="lifecycle"),
        pytest.param(HypervisorSpec(lifecycleEnabled=False), SERVICE, True, id="registered"),
        pytest.param(
            HypervisorSpec(lifecycleEnabled=False, maintenance="manual"), None, True, id="emptied"
        ),
        pytest.param(HypervisorSpec(lifecycleEnabled=False), None, False, id="none of these"),
    ],
)
def test_hypervisor_claims_a_host_in_the_lifecycle_registered_or_emptied(
    spec: HypervisorSpec, holds: str | None, *, expected: bool
) -> None:
    made = hypervisor(spec=spec, status=HypervisorStatus(serviceId=holds))
    assert wants_host(made) is expected


def test_hypervisor_with_another_host_name_owns_no_host() -> None:
    stranger = claimant("kvm-2", days=9, holds=SERVICE)
    assert owner(HOST, claimant("kvm-1.z"), [stranger]).metadata.name == "kvm-1.z"


def test_claimant_counts_as_it_is_now_not_as_it_was_listed() -> None:
    before, now = claimant("kvm-1.z"), claimant("kvm-1.z", holds=SERVICE)
    assert owner(HOST, now, [before]) is now
    assert owner(HOST, before, [now]) is before


def test_claimant_whose_age_is_not_known_is_the_youngest() -> None:
    made = claimant("kvm-1.a")
    ageless = replace(made, metadata=replace(made.metadata, creationTimestamp=None))
    old = claimant("kvm-1.z", days=1)
    assert owner(HOST, ageless, [old]) is old


@pytest.mark.parametrize(
    ("claimants", "name"),
    [
        pytest.param([claimant("kvm-1.z")], "kvm-1.z", id="the only one has it"),
        pytest.param(
            [claimant("kvm-1.a", days=9), claimant("kvm-1.z", holds=SERVICE)],
            "kvm-1.z",
            id="its holder keeps it from an older one that is first by the alphabet",
        ),
        pytest.param(
            [claimant("kvm-1"), claimant("kvm-1.z", holds=SERVICE)],
            "kvm-1.z",
            id="its holder keeps it from one of exactly its name",
        ),
        pytest.param(
            [claimant("kvm-1.a", days=1), claimant("kvm-1.z", days=2)],
            "kvm-1.z",
            id="of two without it the older one",
        ),
        pytest.param(
            [claimant("kvm-1.a"), claimant("kvm-1.z")],
            "kvm-1.a",
            id="of two of one age the first by its uid",
        ),
        pytest.param(
            [claimant("kvm-1.a", days=9), claimant("kvm-1")],
            "kvm-1",
            id="without a holder the one of exactly its name",
        ),
        pytest.param(
            [claimant("evil", days=9, label="kvm-1"), claimant("kvm-1.z")],
            "kvm-1.z",
            id="a name counts for more than a label",
        ),
        pytest.param(
            [claimant("evil", days=9, holds=SERVICE), claimant("kvm-1.z", holds=SERVICE)],
            "kvm-1.z",
            id="a service id in the status of another host is not believed",
        ),
        pytest.param(
            [
                claimant("evil", days=9, holds=SERVICE, label="kvm-1"),
                claimant("kvm-1.z", holds=SERVICE),
            ],
            "kvm-1.z",
            id="nor with the label as well",
        ),
        pytest.param(
            [claimant("kvm-1.a", days=9, lifecycle=False), claimant("kvm-1.z")],
            "kvm-1.z",
            id="one that is not looked for has no claim",
        ),
        pytest.param(
            [claimant("kvm-10.a", days=9, holds="service-10"), claimant("kvm-1.z")],
            "kvm-1.z",
            id="kvm-10 is not kvm-1",
        ),
    ],
)
def test_owner_is_the_same_from_every_hypervisor(claimants: list[Hypervisor], name: str) -> None:
    rightful = next(one for one in claimants if one.metadata.name == name)
    for own, *others in permutations(claimants):
        if wants_host(own) and "kvm-1" in short_names(own):  # the others never find it
            assert owner(HOST, own, others).metadata.name == name
    assert owner(HOST, rightful, claimants).metadata.name == name
