"""Whatever VMI the structs take, a builder refuses it or stays within its bounds."""

from __future__ import annotations

import json
import os
import posixpath
import re
from typing import Any
from xml.etree.ElementTree import Element, fromstring

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.vmi.hostile import NUMBERS, QUANTITIES, TEXTS, VMIS
from tests.unit.vmi.recordings import honoured

from hypercobalt.api.codec import DecodeError, decode, encode
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.domain import DomainContext, Tap, document
from hypercobalt.vmi.domain.document import LONGEST
from hypercobalt.vmi.pod import launcher_pod
from hypercobalt.vmi.unfit import UnfitVMIError

Json = Any
EXAMPLES = int(os.environ.get("HOSTILE_OBJECTS", "20"))
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
FILES = {"source/@file", "source/@path", "listen/@socket", "kernel", "initrd"}
"""Places in a document that name a file."""
ROOTS = (
    "/var/run/kubevirt-private/",
    "/var/run/kubevirt/container-disks/",
    "/var/run/kubevirt-ephemeral-disks/disk-data/",
    "/var/run/libvirt/empty-disks/",
)
LONGEST_MESSAGE = 500
LEAVES: tuple[Json, ...] = (*TEXTS, *NUMBERS, *QUANTITIES, None, True, False, [], {}, [[]])


def build(vmi: VirtualMachineInstance, context: DomainContext) -> tuple[bytes, str]:
    """Pod and document; "" for one that is refused."""
    pod, xml = b"", ""
    refusals: list[UnfitVMIError] = []
    try:
        pod = encode(launcher_pod(vmi, ClusterConfig(use_emulation=context.emulation)))
    except UnfitVMIError as exc:
        refusals.append(exc)
    try:
        xml = document(vmi, context)
    except UnfitVMIError as exc:
        refusals.append(exc)
    for refusal in refusals:
        assert refusal.field.startswith(("spec", "metadata"))
        assert str(refusal).isprintable()
        assert len(str(refusal)) < LONGEST_MESSAGE
    return pod, xml


def check(xml: str) -> None:
    """A document is well formed, within its bounds, and names no file beyond its directories."""
    assert len(xml) <= LONGEST
    assert not CONTROL.search(xml)
    for place, value in values(fromstring(xml)):  # noqa: S314 - it is our own
        assert not CONTROL.search(value)
        if place in FILES:
            assert posixpath.normpath(value) == value
            assert value.startswith(ROOTS)


def values(node: Element) -> list[tuple[str, str]]:
    found = [(f"{node.tag}/@{key}", value) for key, value in node.attrib.items()]
    found += [(node.tag, node.text)] if node.text else []
    return found + [one for child in node for one in values(child)]


CONTEXTS = st.sampled_from(
    [
        DomainContext(),
        DomainContext(emulation=True, vhost_net=False, direct_io=False),
        DomainContext(taps={"default": Tap(device="tap0", mac="02:00:00:00:00:01", mtu=1400)}),
    ]
)


@given(vmi=VMIS, context=CONTEXTS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_vmi_of_the_structs_is_built_or_refused(
    vmi: VirtualMachineInstance, context: DomainContext
) -> None:
    _, xml = build(vmi, context)
    if xml:
        check(xml)


def places(value: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Paths of all values below one."""
    items: list[tuple[str | int, Json]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [path, *(one for key, child in items for one in places(child, (*path, key)))]


def put(value: Json, path: tuple[str | int, ...], new: Json) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@given(data=st.data(), context=CONTEXTS)
@settings(max_examples=4 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_good_vmi_with_one_hostile_value_is_built_or_refused(
    data: st.DataObject, context: DomainContext
) -> None:
    recorded = data.draw(st.sampled_from(honoured()))
    changed = json.loads(json.dumps(recorded.vmi))
    path = data.draw(st.sampled_from(places(changed)[1:]))
    put(changed, path, data.draw(st.sampled_from(LEAVES)))
    try:
        vmi = decode(json.dumps(changed).encode(), VirtualMachineInstance)
    except DecodeError:
        return
    pod, xml = build(vmi, context)
    if xml:
        check(xml)
        assert pod or path  # a pod may be refused for what no document has
