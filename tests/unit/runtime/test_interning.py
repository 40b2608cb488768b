"""Texts that many objects have are kept once, and nothing else changes."""

from __future__ import annotations

from hypercobalt.api.codec import decode, encode
from hypercobalt.api.core import Node
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


def test_cache_lets_managed_fields_go() -> None:
    cache: Cache[Node] = Cache()
    cache.put(Node(metadata=ObjectMeta(name="a", managedFields=(ManagedFieldsEntry(manager="m"),))))
    held = cache.get("a")
    assert held is not None
    assert held.metadata.managedFields == ()
