"""Texts that many objects have are kept once, and nothing else changes."""

from __future__ import annotations

import tracemalloc

import pytest

from hypercobalt.api.codec import decode, encode
from hypercobalt.api.core import Node, NodeCondition, NodeStatus
from hypercobalt.api.meta import ManagedFieldsEntry, ObjectMeta
from hypercobalt.runtime import Cache
from hypercobalt.runtime.interning import Sharer


def node(name: str) -> Node:
    document = f"""{{
        "metadata": {{"name": "{name}", "labels": {{"zone": "a-long-zone-name"}}, "finalizers":
            ["example.com/keep"]}},
        "status": {{"conditions":
            [{{"type": "Ready", "status": "True", "message": "all is well"}}]}}
    }}"""
    return decode(document.encode(), Node)


def texts(obj: Node) -> list[str]:
    condition = obj.status.conditions[0]
    meta = obj.metadata
    return [meta.labels["zone"], meta.finalizers[0], condition.type, condition.message]


def test_the_third_object_has_the_texts_of_the_second() -> None:
    sharer, nodes = Sharer(), [node(f"n{number}") for number in range(3)]
    before = [encode(n) for n in nodes]
    for each in nodes:
        sharer.share(each)
    assert [encode(n) for n in nodes] == before
    for second, third in zip(texts(nodes[1]), texts(nodes[2]), strict=True):
        assert second is third


def test_names_seen_once_do_not_stay() -> None:
    sharer = Sharer()
    for number in range(20_000):
        sharer.share(Node(metadata=ObjectMeta(name=f"n{number}", uid=f"u{number}")))
    assert len(sharer._young) <= 8192
    assert len(sharer._kept) < 10


def rewritten(number: int, conditions: int, characters: int) -> Node:
    """A Node with texts that no other has, of characters that take four bytes each."""
    text = "\U0001f600" * characters
    listed = (f"{number} {condition} {text}" for condition in range(conditions))
    status = NodeStatus(conditions=tuple(NodeCondition("Ready", "True", message=t) for t in listed))
    return Node(metadata=ObjectMeta(name="a"), status=status)


@pytest.mark.parametrize(
    ("writes", "conditions", "characters"),
    [(20, 1, 2**20), (200, 1, 2**15), (60, 39, 2048), (120, 39, 1000), (10, 1000, 500)],
)
@pytest.mark.parametrize("times", [1, 2])
def test_texts_of_an_object_that_is_rewritten_do_not_stay(
    writes: int, conditions: int, characters: int, times: int
) -> None:
    cache: Cache[Node] = Cache()
    tracemalloc.start()
    try:
        for number in range(writes):
            for _ in range(times):  # a text that is seen again is kept
                cache.put(rewritten(number, conditions, characters))
        cache.drop("a")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 8 * 2**20


def test_cache_lets_managed_fields_go() -> None:
    cache: Cache[Node] = Cache()
    cache.put(Node(metadata=ObjectMeta(name="a", managedFields=(ManagedFieldsEntry(manager="m"),))))
    held = cache.get("a")
    assert held is not None
    assert held.metadata.managedFields == ()
