"""Probes have one handler, a pod network if they need one, and KubeVirt's times."""

from __future__ import annotations

import pytest

from hypercobalt.vmi.defaults import probes as defaults
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject
from hypercobalt.vmi.rules import probes

POD: JsonObject = {"name": "a", "pod": {}}
MULTUS: JsonObject = {"name": "b", "multus": {"networkName": "n"}}
TCP: JsonObject = {"tcpSocket": {"port": 22}}
HTTP: JsonObject = {"httpGet": {"port": 80}}


@pytest.mark.parametrize("name", ["livenessProbe", "readinessProbe"])
@pytest.mark.parametrize(
    ("probe", "networks", "field"),
    [
        (None, [], None),
        ({}, [POD], ""),
        ({"guestAgentPing": {}}, [], None),
        ({"exec": {}}, [], None),
        ({"exec": {}, "guestAgentPing": {}}, [], ""),
        (TCP, [POD], None),
        (TCP, [MULTUS, POD], None),
        (HTTP, [POD], None),
        (TCP, [MULTUS], ".tcpSocket"),
        (HTTP, [], ".httpGet"),
    ],
)
def test_probe_has_one_handler_and_its_network(
    name: str, probe: Json, networks: list[Json], field: str | None
) -> None:
    found = probes.probes(At({name: probe, "networks": networks}, "spec"))
    named = [] if field is None else [f"spec.{name}{field}"]
    assert [cause.field for cause in found] == named


TIMES: JsonObject = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


@pytest.mark.parametrize("name", ["livenessProbe", "readinessProbe"])
@pytest.mark.parametrize("field", list(TIMES))
@pytest.mark.parametrize(
    ("sent", "kept"), [(None, False), (-1, False), (0, False), (1, True), (2, True)]
)
def test_time_or_threshold_below_one_is_the_default(
    name: str, field: str, sent: Json, *, kept: bool
) -> None:
    spec: JsonObject = {name: {field: sent}}
    defaults.apply(spec)
    assert spec == {name: {**TIMES, field: sent} if kept else TIMES}


def test_guest_without_probes_gets_none() -> None:
    spec: JsonObject = {}
    defaults.apply(spec)
    assert spec == {}
