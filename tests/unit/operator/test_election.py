"""The Lease of a shard: its name, and how it is found."""

from __future__ import annotations

import hashlib

import pytest

from hypercobalt.api.coordination import Lease
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.election import SELECTOR_ANNOTATION, election, lease_name, selector_of


def test_lease_of_everything_has_the_known_name() -> None:
    assert lease_name("") == "4c28796a.cloud.sap"


def test_lease_of_a_shard_is_its_own() -> None:
    whole = b"4c28796a.cloud.sapzone=a"
    assert lease_name("zone=a") == f"{hashlib.sha256(whole).hexdigest()}.cloud.sap"


@pytest.mark.parametrize("selector", ["", "zone=a", "zone in (a,b),!old"])
def test_a_lease_of_an_election_names_its_shard(selector: str) -> None:
    made = election(selector, "ns")
    meta = ObjectMeta(name=made.name, labels=dict(made.labels), annotations=dict(made.annotations))
    assert selector_of(Lease(metadata=meta)) == selector


@pytest.mark.parametrize("name", ["node-agent-kvm-1", "4c28796a.cloud.sap"])
def test_a_lease_that_claims_a_shard_under_another_name_is_no_elections(name: str) -> None:
    meta = ObjectMeta(name=name, annotations={SELECTOR_ANNOTATION: "zone=a"})
    assert selector_of(Lease(metadata=meta)) is None
