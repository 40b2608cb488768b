"""Objects that nest deeper than a decoder goes: one host's object must not hide all others.

kube-apiserver takes ten thousand levels. What nests that deep is in no field that is read.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from hypercobalt.api.codec import decode
from hypercobalt.api.coordination import LeaseGlance
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Object
from hypercobalt.api.nesting import MOST, shallow
from hypercobalt.runtime.client.collection import read_page
from hypercobalt.runtime.client.watch import read_events

LEVELS = 9_990
READ: tuple[type[Object], ...] = (Hypervisor, LeaseGlance, Node)


def nested(levels: int) -> bytes:
    return b'{"f:a":' * levels + b"{}" + b"}" * levels


def hostile(levels: int = LEVELS) -> bytes:
    """An object whose writer has put such a set of fields under its own name."""
    fields = nested(levels)
    return (
        b'{"metadata":{"name":"kvm-a","annotations":{"a":"]}\\"{"},"managedFields":'
        b'[{"manager":"x","fieldsV1":' + fields + b'}],"resourceVersion":"7"}}'
    )


@pytest.mark.parametrize("type_", READ, ids=lambda one: one.__name__)
def test_deep_object_is_read_and_hides_no_other(type_: type[Object]) -> None:
    page = b'{"metadata":{"resourceVersion":"8"},"items":[%s,{"metadata":{"name":"kvm-b"}}]}'
    listed = read_page(page % hostile(), type_)
    assert [one.metadata.name for one in listed.items] == ["kvm-a", "kvm-b"]
    assert listed.items[0].metadata.annotations == {"a": ']}"{'}
    assert (listed.resource_version, listed.unreadable) == ("8", {})
    assert decode(hostile(), type_).metadata.resourceVersion == "7"


@pytest.mark.parametrize("type_", READ, ids=lambda one: one.__name__)
async def test_watch_goes_on_after_a_deep_object(type_: type[Object]) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"type":"MODIFIED","object":%s}\n' % hostile()
        yield b'{"type":"ADDED","object":{"metadata":{"name":"kvm-b"}}}\n'

    found = [event async for event in read_events(chunks(), type_, "watch")]
    assert [(one.key, one.problem) for one in found] == [("kvm-a", ""), ("kvm-b", "")]
    assert found[0].resource_version == "7"


def test_only_what_is_too_deep_is_left_out() -> None:
    for levels in (0, 1, MOST - 2):
        assert shallow(b"[%s]" % nested(levels)) == b"[%s]" % nested(levels)
    cut = shallow(b'{"a":%s,"b":["{[",%s,1]}' % (nested(MOST), nested(MOST)))
    found = msgspec.json.decode(cut)
    assert (list(found), found["b"][0], found["b"][2]) == (["a", "b"], "{[", 1)


def test_a_large_deep_object_takes_no_long_turn() -> None:
    wide = b"[" + b",".join([b'{"f:a":{}}'] * 150_000) + b"]"
    data = b'{"a":%s,"b":%s}' % (wide, nested(LEVELS))
    began = time.thread_time()
    assert len(msgspec.json.decode(shallow(data))["a"]) == 150_000
    assert time.thread_time() - began < 1


async def test_unreadable_deep_object_has_its_name() -> None:
    """Too deep, and not of its type as well."""
    bad = hostile().replace(b'"resourceVersion":"7"', b'"resourceVersion":"7","labels":5')

    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"type":"MODIFIED","object":%s}\n' % bad

    (event,) = [one async for one in read_events(chunks(), Node, "watch")]
    listed = read_page(b'{"items":[%s]}' % bad, Node)
    assert (event.key, event.object, event.resource_version) == ("kvm-a", None, "7")
    assert "labels" in event.problem
    assert list(listed.unreadable) == ["kvm-a"]
