"""Patches made from two versions of an object: they make the new one, and keep the unknown."""

from __future__ import annotations

import json
from typing import cast

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hypercobalt.api.codec import decode
from hypercobalt.api.core import ConfigMap, Node, NodeSpec, Taint
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import Container, EnvVar, Pod, PodSpec
from hypercobalt.runtime.client.patch import Operation, diff, locked

TEXTS = st.dictionaries(st.sampled_from("a/~"), st.text(max_size=3), max_size=3)
Tree = dict[str, object]


def patched(stored: object, patch: list[Operation]) -> Tree:
    result: Tree = jsonpatch.apply_patch(stored, patch)
    return result


def items(tree: object, name: str) -> list[Tree]:
    return cast("dict[str, list[Tree]]", tree).get(name, [])


@given(old=TEXTS, new=TEXTS, labels=TEXTS)
def test_patch_makes_new_out_of_old_and_keeps_unknown_fields(
    old: dict[str, str], new: dict[str, str], labels: dict[str, str]
) -> None:
    before = ConfigMap(metadata=ObjectMeta(name="a"), data=old)
    after = replace(before, data=new, metadata=ObjectMeta(name="a", labels=labels))
    result = patched({"metadata": {"name": "a"}, "data": old, "extra": [1]}, diff(before, after))
    assert decode(json.dumps(result).encode(), ConfigMap) == after
    assert result["extra"] == [1]
    assert not diff(after, after)


NAMES = st.lists(st.sampled_from("abcdef"), unique=True)
CONTAINERS = NAMES.flatmap(
    lambda names: st.tuples(
        *(
            st.builds(
                Container,
                name=st.just(name),
                image=st.sampled_from(["", "i", "j"]),
                env=NAMES.map(lambda keys: tuple(EnvVar(name=key) for key in keys)),
            )
            for name in names
        )
    )
)


def stored_pod(containers: tuple[Container, ...]) -> Tree:
    """The pod as the server has it: every item has a field that our types lack."""
    stored = [
        {
            "name": container.name,
            "image": container.image,
            "env": [{"name": each.name, "unknown": each.name} for each in container.env],
            "unknown": container.name,
        }
        for container in containers
    ]
    return {"metadata": {"name": "p"}, "spec": {"containers": stored}}


@given(old=CONTAINERS, new=CONTAINERS)
def test_items_that_stay_in_a_list_keep_unknown_fields(
    old: tuple[Container, ...], new: tuple[Container, ...]
) -> None:
    stored = stored_pod(old)
    before = decode(json.dumps(stored).encode(), Pod)
    after = replace(before, spec=PodSpec(containers=new))
    result = patched(stored, diff(before, after))
    assert decode(json.dumps(result).encode(), Pod) == after
    stayed = {c.name: c.env for c in old}
    for item, container in zip(items(result["spec"], "containers"), new, strict=True):
        assert ("unknown" in item) == (container.name in stayed)
        names = {each.name for each in stayed.get(container.name, ())}
        for variable in items(item, "env"):
            assert ("unknown" in variable) == (variable["name"] in names)


TAINTS = st.lists(st.builds(Taint, key=st.just("k"), effect=st.sampled_from("abc")), min_size=2)


@given(old=TAINTS, new=TAINTS)
def test_equal_items_of_lists_without_names_are_the_same(
    old: list[Taint], new: list[Taint]
) -> None:
    taints = [{"key": "k", "effect": taint.effect, "unknown": 1} for taint in old]
    stored = {"metadata": {"name": "n"}, "spec": {"taints": taints}}
    before = decode(json.dumps(stored).encode(), Node)
    after = replace(before, spec=NodeSpec(taints=tuple(new)))
    result = patched(stored, diff(before, after))
    assert decode(json.dumps(result).encode(), Node) == after
    kept = [taint["effect"] for taint in items(result["spec"], "taints") if "unknown" in taint]
    stay = [min(count(old, effect), count(new, effect)) for effect in "abc"]
    assert [kept.count(effect) for effect in "abc"] == stay


def count(taints: list[Taint], effect: str) -> int:
    return sum(taint.effect == effect for taint in taints)


def pod(*containers: Container) -> Pod:
    return Pod(spec=PodSpec(containers=containers))


A, B, C = (Container(name=name, image="1") for name in "abc")


@pytest.mark.parametrize(
    ("old", "new", "operations"),
    [
        pytest.param((A, B), (A, replace(B, image="2")), ["replace /1/image"], id="changed"),
        pytest.param((A, B), (B,), ["remove /0"], id="dropped"),
        pytest.param((A, C), (A, B, C), ["add /1"], id="inserted"),
        pytest.param((A, B, C), (C, A, B), ["move /0"], id="moved"),
        pytest.param((A,), (B, C), ["replace "], id="another-list"),
        pytest.param((), (A,), ["add "], id="new-list"),
    ],
)
def test_a_list_is_changed_where_it_differs(
    old: tuple[Container, ...], new: tuple[Container, ...], operations: list[str]
) -> None:
    found = [f"{step['op']} {step['path']}" for step in diff(pod(*old), pod(*new))]
    assert [each.replace("/spec/containers", "") for each in found] == operations


def test_locked_patch_keeps_the_rest_of_the_metadata() -> None:
    patch = {"metadata": {"labels": {"a": "b"}}}
    assert locked(patch, "7") == {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}}
    assert locked(patch, None) == patch
