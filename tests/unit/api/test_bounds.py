"""What an agent may write is bounded, and what ours write is within the bounds."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.api.schemas import nodes

from hypercobalt.api import crd
from hypercobalt.api.bounds import within
from hypercobalt.api.conditions import AGENT_MESSAGE, AGENT_REASON, MAX_TYPE
from hypercobalt.api.crd import Schema
from hypercobalt.api.eviction import EvictionSpec
from hypercobalt.api.hypervisor import Hypervisor, lists_all
from hypercobalt.api.hypervisor_conditions import MOST_UNITS, NODE_AGENT_TYPES
from hypercobalt.api.hypervisor_host import OperatingSystemStatus
from hypercobalt.api.hypervisor_status import MOST_INSTANCES, HypervisorStatus, Instance
from hypercobalt.api.migration import MigrationStatus
from hypercobalt.api.ovsnode import Bridge, OVSNode, OVSNodeStatus
from hypercobalt.api.schema import KEY, CustomObject, Writer
from hypercobalt.api.writers import writers

MEBIBYTE = 1024 * 1024
KIND = pytest.mark.parametrize("kind", crd.KINDS)


def is_bounded(node: Schema) -> bool:
    if node.get("type") == "array":
        return "maxItems" in node
    if "additionalProperties" in node:
        return "maxProperties" in node
    if node.get("type") == "string" or "x-kubernetes-int-or-string" in node:
        return "maxLength" in node or "enum" in node
    return True


@KIND
def test_every_text_list_and_map_has_a_bound(kind: type[CustomObject]) -> None:
    found = nodes(crd.root_schema(kind))
    loose = [path for path, node in found if not is_bounded(node)]
    assert set(loose) <= {".apiVersion", ".kind"}  # which are the kind's own


@pytest.mark.parametrize("kind", [Hypervisor, OVSNode])
def test_conditions_that_a_policy_compares_pairwise_are_few(kind: type[CustomObject]) -> None:
    """15,000 of an OVSNode, in one request, took the embedded server 7 s."""
    (conditions,) = (
        node for path, node in nodes(crd.root_schema(kind)) if path == ".status.conditions"
    )
    assert cast("int", conditions["maxItems"]) <= 128


def largest(node: Schema) -> int:
    """Characters of the longest JSON that a schema takes, without escapes."""
    if "enum" in node:
        return 2 + max(len(value) for value in cast("list[str]", node["enum"]))
    if "maxLength" in node:
        return 2 + cast("int", node["maxLength"])
    if "items" in node:
        return 2 + cast("int", node["maxItems"]) * (1 + largest(cast("Schema", node["items"])))
    if "additionalProperties" in node:
        value = largest(cast("Schema", node["additionalProperties"]))
        return 2 + cast("int", node["maxProperties"]) * (KEY + 4 + value)
    if "properties" in node:
        fields = cast("dict[str, Schema]", node["properties"])
        return 2 + sum(len(name) + 4 + largest(field) for name, field in fields.items())
    return 20  # a number, or a truth value


@KIND
def test_all_that_an_agent_writes_into_an_object_is_below_a_mebibyte(
    kind: type[CustomObject],
) -> None:
    """A whole object may have 1.5 MiB, and the operator's part has to have room beside it."""
    whole = cast("dict[str, Schema]", crd.root_schema(kind)["properties"])
    if "status" not in whole:  # sealed definitions are written by the agent alone
        assert largest(whole["spec"]) < 1.25 * MEBIBYTE
        return
    fields = cast("dict[str, Schema]", whole["status"]["properties"])
    agents = {Writer.NODE_AGENT, Writer.OVS_AGENT}
    mine = [name for name, writer in writers(kind).items() if writer in agents]
    types = MOST_UNITS + len(NODE_AGENT_TYPES) if kind is Hypervisor else 8 * (kind is OVSNode)
    condition = AGENT_MESSAGE + AGENT_REASON + MAX_TYPE + 200
    assert sum(largest(fields[name]) for name in mine) + types * condition < MEBIBYTE


def test_an_eviction_s_spec_is_small() -> None:
    fields = cast("dict[str, Schema]", crd.root_schema(crd.kind_named("Eviction"))["properties"])
    assert largest(fields["spec"]) < 128 * 1024


def test_a_host_with_more_instances_than_fit_reports_the_first() -> None:
    one = Instance(id="i", name="n" * 300, active=True)
    given = HypervisorStatus(instances=(one,) * 2000, numInstances=2000)
    found = within(given)
    assert (len(found.instances), found.numInstances) == (MOST_INSTANCES, 2000)
    assert {len(instance.name) for instance in found.instances} == {255}


@pytest.mark.parametrize(
    ("listed", "number", "all_"),
    [(0, None, True), (0, 0, True), (2, 2, True), (2, 3, False), (0, 1, False), (2, None, True)],
)
def test_a_list_that_was_cut_does_not_list_all(
    listed: int, number: int | None, *, all_: bool
) -> None:
    one = Instance(id="i", name="n", active=True)
    status = HypervisorStatus(instances=(one,) * listed, numInstances=number)
    assert lists_all(Hypervisor(status=status)) is all_


def test_a_host_with_more_instances_than_fit_lists_not_all() -> None:
    one = Instance(id="i", name="n", active=True)
    for number in (MOST_INSTANCES, MOST_INSTANCES + 1):
        found = within(HypervisorStatus(instances=(one,) * number, numInstances=number))
        assert lists_all(Hypervisor(status=found)) is (number == MOST_INSTANCES)


@pytest.mark.parametrize(
    ("given", "longest"),
    [
        (HypervisorStatus(operatingSystem=OperatingSystemStatus(kernelName="x" * 10**6)), 1024),
        (
            HypervisorStatus(operatingSystem=OperatingSystemStatus(kernelCommandLine="x" * 10**6)),
            4096,
        ),
        (MigrationStatus(errMsg="x" * 10**6), 32768),
        (OVSNodeStatus(bridges=(Bridge(name="x" * 10**6),)), 256),
        (EvictionSpec(hypervisor="h", reason="x" * 10**6), 32768),
    ],
)
def test_long_texts_are_cut_to_their_own_bound(
    given: HypervisorStatus | MigrationStatus | OVSNodeStatus | EvictionSpec, longest: int
) -> None:
    assert str(within(given)).count("x") in (longest, longest + 1)  # one of a field's name


def test_what_fits_is_the_same_object() -> None:
    given = HypervisorStatus(instances=(Instance(id="i", name="n", active=True),), numInstances=1)
    assert within(given) is given
