"""Names of a guest, of its resolver, service account and claims; how it starts and leaves."""

from __future__ import annotations

import pytest

from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject
from hypercobalt.vmi.rules import placement

ACCOUNT = "spec.serviceAccountName"
CLAIM = "spec.resourceClaims"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"searches": ["a"] * 6}, []),
        ({"searches": ["a"] * 7}, ["searchDomains"]),
        ({"searches": ["a" * 127, "b" * 128]}, []),
        ({"searches": ["a" * 128, "b" * 128]}, ["searchDomains"]),
        ({"searches": ["lab.example."]}, ["searchDomains"]),
        ({"searches": ["Lab"] * 7}, ["searchDomains", "searchDomains"]),
        ({"nameservers": ["10.0.0.1", "fd00::1", "::1"]}, []),
        ({"nameservers": ["10.0.0.1"] * 4}, ["nameservers"]),
        ({"nameservers": ["fe80::1%eth0"]}, ["nameservers"]),
        ({"options": [{"name": "ndots"}]}, []),
        ({"options": [{"name": "ndots"}, {}]}, ["options"]),
    ],
)
def test_resolver_is_that_of_a_pod(config: JsonObject, named: list[str]) -> None:
    found = placement.resolver(At({"dnsConfig": config}, "spec"))
    assert [cause.field for cause in found] == named


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (None, ["spec.dnsConfig"]),
        ({"searches": ["A"]}, ["nameservers"]),
        ({"nameservers": ["::1"]}, []),
    ],
)
def test_resolver_of_its_own_has_a_server(config: Json, named: list[str]) -> None:
    spec: JsonObject = {"dnsPolicy": "None", "dnsConfig": config}
    assert [cause.field for cause in placement.resolver(At(spec, "spec"))] == named


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ({}, []),
        ({"hostname": "", "subdomain": ""}, []),
        ({"hostname": "a", "subdomain": "a.b"}, []),
        ({"hostname": "a.b"}, ["spec.hostname"]),
        ({"subdomain": "A"}, ["spec.subdomain"]),
    ],
)
def test_hostname_is_a_label_and_subdomain_a_subdomain(names: JsonObject, named: list[str]) -> None:
    assert [cause.field for cause in placement.names(At(names, "spec"))] == named


START, EVICTION = "spec.startStrategy", "spec.evictionStrategy"


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"livenessProbe": {}}, []),
        ({"startStrategy": "Paused", "readinessProbe": {}}, []),
        ({"startStrategy": "Paused", "livenessProbe": {}}, [START]),
        ({"startStrategy": ""}, [START]),
        ({"startStrategy": "Running", "livenessProbe": {}}, [START]),
        ({"evictionStrategy": "LiveMigrate"}, []),
        ({"evictionStrategy": "None"}, []),
        ({"evictionStrategy": ""}, [EVICTION]),
        ({"evictionStrategy": "Evict"}, [EVICTION]),
    ],
)
def test_strategies_are_those_that_there_are(spec: JsonObject, named: list[str]) -> None:
    assert [cause.field for cause in placement.strategies(At(spec, "spec"))] == named


@pytest.mark.parametrize(
    ("account", "volumes", "fits"),
    [
        ("a", ["a", "a"], True),
        ("a", ["a", "b"], False),
        ("a", [""], False),
        ("", ["b"], True),
        ("A", [], False),
    ],
)
def test_service_account_is_that_of_its_volumes(
    account: str, volumes: list[str], *, fits: bool
) -> None:
    of_volumes: list[Json] = [{"serviceAccount": {"serviceAccountName": one}} for one in volumes]
    spec: JsonObject = {"serviceAccountName": account, "volumes": [*of_volumes, {"emptyDisk": {}}]}
    found = [cause.field for cause in placement.names(At(spec, "spec"))]
    assert found == ([] if fits else [ACCOUNT])


TEMPLATE: JsonObject = {"resourceClaimTemplateName": "t"}


@pytest.mark.parametrize(
    ("claims", "named"),
    [
        ([{"name": "a", **TEMPLATE}, {"name": "b", "resourceClaimName": "c"}], []),
        ([{"name": "a", **TEMPLATE}, {"name": "a", **TEMPLATE}], ["[1].name"]),
        ([TEMPLATE, {"name": "", **TEMPLATE}], ["[0].name", "[1].name"]),
        ([{"name": "A", **TEMPLATE}], ["[0].name"]),
        ([{"name": "a"}], ["[0]"]),
        ([{"name": "a", **TEMPLATE, "resourceClaimName": "C"}], ["[0]", "[0].resourceClaimName"]),
    ],
)
def test_claims_have_names_of_their_own_and_one_source(
    claims: list[Json], named: list[str]
) -> None:
    found = placement.claims(At({"resourceClaims": claims}, "spec"))
    assert [cause.field for cause in found] == [f"{CLAIM}{name}" for name in named]


@pytest.mark.parametrize("given", [[], [{}]])
def test_new_guest_has_no_volumes_for_tools(given: list[Json]) -> None:
    found = placement.utility_volumes(At({"utilityVolumes": given}, "spec"))
    assert [cause.field for cause in found] == ["spec.utilityVolumes"] * len(given)
