"""What is requested for a guest goes together: memory, CPUs, and CPUs of its own."""

from __future__ import annotations

import pytest

from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import JsonObject
from hypercobalt.vmi.rules import guest

MEMORY = "spec.domain.memory."
CPU = "spec.domain.cpu."
REQUESTS = "spec.domain.resources.requests."
LIMITS = "spec.domain.resources.limits."


def domain(
    memory: JsonObject | None = None,
    cpu: JsonObject | None = None,
    requests: JsonObject | None = None,
    limits: JsonObject | None = None,
) -> At:
    value: JsonObject = {"resources": {"requests": requests or {}, "limits": limits or {}}}
    return At(value | {"memory": memory or {}, "cpu": cpu or {}}, "spec.domain")


def pages(size: str, **memory: str) -> JsonObject:
    return {"hugepages": {"pageSize": size}, **memory}


@pytest.mark.parametrize(
    ("found", "fields"),
    [
        (domain(), [""]),
        (domain({"guest": "64Mi"}), []),
        (domain(requests={"memory": "64Mi"}), []),
        (domain(limits={"memory": "64Mi"}), []),
        (domain(requests={"memory": 0}, limits={"memory": 0}), [""]),
        (domain(requests={"memory": "999999"}), [f"{REQUESTS}memory"]),
        (domain(requests={"memory": "1M"}), []),
        (domain(requests={"memory": "-1"}), [f"{REQUESTS}memory"]),
        (domain(limits={"memory": "-1"}), [f"{LIMITS}memory"]),
        (domain(requests={"memory": "2M"}, limits={"memory": "1M"}), [f"{REQUESTS}memory"]),
        (domain(requests={"memory": "2M"}, limits={"memory": "2M"}), []),
        (domain(requests={"memory": "2M"}, limits={"memory": "0"}), []),
        (domain({"guest": "0"}), []),
        (domain(pages("2Mi", guest="4Mi")), []),
        (domain(pages("4Mi", guest="4Mi")), []),
        (domain(pages("2Mi", guest="3Mi")), [f"{REQUESTS}memory"]),
        (domain(pages("2Mi", guest="1Mi")), [f"{REQUESTS}memory"]),
        (domain(pages("2Mi", guest="0")), []),  # nothing is no part of a page
        (domain(pages("2Mi", guest="0"), limits={"memory": "3Mi"}), [f"{REQUESTS}memory"]),
        (domain(pages("2Mi"), limits={"memory": "4Mi"}), []),
        (domain(requests={"memory": "1999999.5"}, limits={"memory": "1999999.2"}), []),
        (domain(pages("2Mi", guest="4Mi"), requests={"memory": "3Mi"}), [f"{REQUESTS}memory"]),
        (domain(pages("2Mi", guest="3Mi"), requests={"memory": "4Mi"}), []),
        (domain(pages("1", guest="3Mi")), []),
        (domain(pages("0", guest="3Mi")), [f"{MEMORY}hugepages.pageSize"]),
        (domain(pages("-2Mi", guest="4Mi")), []),
        (domain(pages("-2Mi", guest="3Mi")), [f"{REQUESTS}memory"]),
        (domain(pages("2Gb", guest="4Mi")), [f"{MEMORY}hugepages.pageSize"]),
    ],
)
def test_memory_is_there_and_fits_requests_limits_and_pages(found: At, fields: list[str]) -> None:
    assert [cause.field for cause in guest.memory(found)] == fields


OWN: JsonObject = {"dedicatedCpuPlacement": True}
PLACEMENT = f"{CPU}dedicatedCpuPlacement"
NUMA = f"{CPU}numa.guestMappingPassthrough"


@pytest.mark.parametrize(
    ("found", "fields"),
    [
        (domain(), []),
        (domain(requests={"cpu": "-1"}), [f"{REQUESTS}cpu"]),
        (domain(limits={"cpu": "-1"}), [f"{LIMITS}cpu"]),
        (domain(requests={"cpu": 2}, limits={"cpu": 1}), [f"{REQUESTS}cpu"]),
        (domain(requests={"cpu": 2}, limits={"cpu": 0}), []),
        (domain(requests={"cpu": "2000m"}, limits={"cpu": 2}), []),
        (domain(requests={"cpu": "1.00009"}, limits={"cpu": "1.00001"}), []),  # both 1001m
        (domain(requests={"cpu": "1.0011"}, limits={"cpu": "1.0009"}), [f"{REQUESTS}cpu"]),
        (domain(cpu={"sockets": 3, "maxSockets": 2}), [f"{CPU}sockets"]),
        (domain(cpu={"sockets": 2, "maxSockets": 2}), []),
        (domain(cpu={"sockets": 2}), []),
        (domain(cpu={"isolateEmulatorThread": True}), [f"{CPU}isolateEmulatorThread"]),
        (domain({"guest": "1Gi"}, {**OWN, "isolateEmulatorThread": True, "cores": 1}), []),
        (domain(cpu={"isolateEmulatorThread": False}), []),
        (domain(cpu={"features": [{"name": "a", "policy": "x"}]}), [f"{CPU}features[0].policy"]),
        (domain(cpu={"features": [{"name": "a"}, {"name": "b", "policy": "force"}]}), []),
        (domain(cpu={"numa": {"guestMappingPassthrough": {}}}), [NUMA, NUMA]),
        (domain(cpu={"realtime": {}}), [PLACEMENT, NUMA]),
        (
            domain(
                pages("2Mi", guest="2Mi"),
                {**OWN, "cores": 1, "numa": {"guestMappingPassthrough": {}}, "realtime": {}},
            ),
            [],
        ),
    ],
)
def test_cpus_fit_requests_limits_and_each_other(found: At, fields: list[str]) -> None:
    assert [cause.field for cause in guest.cpu(found)] == fields


@pytest.mark.parametrize(
    ("found", "fields"),
    [
        (domain({"guest": "1Gi"}, {**OWN, "cores": 1}), []),
        (domain({"guest": "1Gi"}, OWN), [PLACEMENT]),
        (domain({"guest": "1Gi"}, OWN, {"cpu": 1}), []),
        (domain({"guest": "1Gi"}, OWN, limits={"cpu": 1}), []),
        (domain(cpu={**OWN, "cores": 1}), [f"{LIMITS}memory"]),
        (domain(cpu={**OWN, "cores": 1}, requests={"memory": "1Gi"}), []),
        (domain(cpu={**OWN, "cores": 1}, limits={"memory": "1Gi"}), []),
        (domain({"hugepages": {"pageSize": "1"}}, {**OWN, "cores": 1}, {"memory": "1Gi"}), []),
        (domain({"guest": "0"}, {**OWN, "cores": 1}), [f"{LIMITS}memory"]),
        (domain({"guest": "0", "hugepages": {}}, {**OWN, "cores": 1}), []),
        (domain({"guest": "1Gi"}, OWN, {"cpu": "500m"}), [f"{REQUESTS}cpu"]),
        (domain({"guest": "1Gi"}, OWN, {"cpu": "999999u"}), []),  # rounded up to the milli
        (domain({"guest": "1Gi"}, OWN, {"cpu": "-1500m"}), [f"{REQUESTS}cpu"]),  # negative alone
        (domain({"guest": "1Gi"}, {**OWN, "sockets": 2}), []),
        (domain({"guest": "1Gi"}, {**OWN, "threads": 2}), []),
        (domain({"guest": "1Gi"}, {**OWN, "sockets": 2, "cores": 3}, {"cpu": 6}), []),
        (domain({"guest": "1Gi"}, {**OWN, "sockets": 2, "cores": 3}, {"cpu": 5}), [PLACEMENT]),
        (domain({"guest": "1Gi"}, {**OWN, "cores": 3}, {"cpu": 2}, {"cpu": 3}), [PLACEMENT]),
        (domain({"guest": "1Gi"}, {**OWN, "cores": 3}, {"cpu": 2}, {"cpu": 2}), [PLACEMENT]),
        (domain({"guest": "1Gi"}, OWN, limits={"cpu": "1.5"}), [f"{LIMITS}cpu"]),
        (domain({"guest": "1Gi"}, OWN, {"cpu": 1}, {"cpu": 2}), [PLACEMENT]),
        (domain({"guest": "1Gi"}, OWN, {"cpu": 0}, {"cpu": 2}), []),
        (domain({"guest": "1Gi"}, OWN, {"cpu": 2}, {"cpu": 0}), []),
        (domain({"guest": "1Gi"}, {**OWN, "cores": 1, "threads": 2}), []),
        (domain({"guest": "1Gi"}, {**OWN, "cores": 1, "threads": 3}), [PLACEMENT]),
        (
            domain(None, {**OWN, "cores": 1}, {"memory": "1Gi"}, {"memory": "2Gi"}),
            [f"{REQUESTS}memory"],
        ),
        (domain(None, {**OWN, "cores": 1}, {"memory": "1Gi"}, {"memory": "1024Mi"}), []),
        (domain(None, {**OWN, "cores": 1}, {"memory": "1999999.5"}, {"memory": "2000000"}), []),
        (domain(None, {**OWN, "cores": 1}, {"memory": "1Gi"}, {"memory": "0"}), []),
        (domain(None, {**OWN, "cores": 1}, {"memory": "0"}, {"memory": "1Gi"}), []),
    ],
)
def test_cpus_of_its_own_need_whole_numbers(found: At, fields: list[str]) -> None:
    assert [cause.field for cause in guest.cpu(found)] == fields
