"""No rule decides by the text of a message: messages are for people, and change with versions.

A message may be passed on, shown, and compared with another one to report a change to a person.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace as with_fields
from tests.pages import ROOT
from tests.unit.messages import twice
from tests.unit.operator.eviction import made
from tests.unit.operator.lifecycle.facts import facts
from tests.unit.operator.lifecycle.strategies import conditions, hosts
from tests.unit.operator.samples import condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.eviction import EvictionInstance
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.compute.model import Host
from hypercobalt.operator.lifecycle import ha_enabled, maintenance_eviction, offboarding, onboarding
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.lifecycle.step import LifecycleFacts
from hypercobalt.operator.nodes import ready

ROOMS = ("agent", "compute", "ha", "node_agent", "operator", "ovs_agent", "views")
ALLOWED = {
    ("compute/nova/actions.py", "failed"),  # a state in Nova's API, which has no other field for it
    ("node_agent/host/os_update.py", "_in_message"),  # of agents that had no field for it
    ("views/explain/recovery.py", "details"),  # one line on the screen for each gate
}
READS = {"startswith", "endswith", "partition", "rpartition", "split", "find", "removeprefix"}


def is_message(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "message"


def reads(function: ast.AST) -> Iterator[int]:
    """Lines that read the text of a message."""
    for node in ast.walk(function):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(is_message(side) for side in sides) and not all(map(is_message, sides)):
                yield node.lineno
        elif isinstance(node, ast.Attribute) and node.attr in READS and is_message(node.value):
            yield node.lineno


def found(path: Path, name: str) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return sorted(
        {
            f"{name}:{line}"
            for function in ast.walk(tree)
            if isinstance(function, kinds) and (name, function.name) not in ALLOWED
            for line in reads(function)
        }
    )


def test_no_rule_reads_a_message() -> None:
    source = ROOT / "src" / "hypercobalt"
    files = [path for room in ROOMS for path in (source / room).rglob("*.py")]
    assert files
    assert [line for path in files for line in found(path, str(path.relative_to(source)))] == []


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        ('return c.message == "Evicting"', 1),
        ('return c.message in ("a", "b")', 1),
        ('return c.message.startswith("Evicting")', 1),
        ('return f"because {c.message}"', 0),
        ("return old.message != new.message", 0),
    ],
)
def test_check_finds_rules_that_read_a_message(tmp_path: Path, rule: str, lines: int) -> None:
    path = tmp_path / "rule.py"
    path.write_text(f"def decide(c, old=None, new=None):\n    {rule}\n")
    assert len(found(path, "rule.py")) == lines


def of_onboarding(given: LifecycleFacts) -> object:
    plan = onboarding.decide(given, None, "", LifecycleSettings())
    return replace(plan, condition=None), plan.condition and plan.condition[:2]


def of_evicting(given: LifecycleFacts) -> object:
    plan = maintenance_eviction.decide(given, None, (), timedelta(minutes=5))
    return replace(plan, condition=None), plan.condition and plan.condition[:2]


def of_offboarding(given: LifecycleFacts) -> object:
    return replace(offboarding.decide(given), text="")


def of_availability(given: LifecycleFacts) -> object:
    verdict = ha_enabled.decide(given)
    return verdict and verdict[:2]


def of_ready(given: LifecycleFacts) -> object:
    return ready.decide(given.hypervisor)[0]


@pytest.mark.parametrize(
    "rule", [of_onboarding, of_evicting, of_offboarding, of_availability, of_ready]
)
@given(found=conditions(), host=hosts())
def test_a_rule_decides_the_same_whatever_the_messages_are(
    rule: Callable[[LifecycleFacts], object],
    found: tuple[Condition, ...],
    host: tuple[HypervisorSpec, Host],
) -> None:
    spec, known = host
    plain = tuple(with_fields(one, message="x") for one in found)
    assert rule(facts(*found, spec=spec, host=known)) == rule(facts(*plain, spec=spec, host=known))


def by_message(given: Condition) -> bool:
    return given.message == "Evicting"


def by_texts(given: Condition) -> tuple[str, str]:
    return given.reason, f"because {given.message}"


def by_entry(given: list[EvictionInstance]) -> str:
    return given[0].message or given[0].id


def of_iterator(given: Iterator[Condition]) -> list[str]:
    return [one.reason for one in given]


EVICTING = condition("Evicting", "True", "Running", "Evicting")


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        (by_texts, EVICTING),
        (by_entry, [made.entry(message=None)]),
        (of_iterator, iter((EVICTING, EVICTING))),
    ],
    ids=["a message is passed on", "there is none", "an iterator"],
)
def test_rule_that_decides_by_no_message_gives_what_it_gives(
    rule: Callable[[object], object], given: object
) -> None:
    assert twice(rule)(given)


def test_rule_that_decides_by_a_message_fails() -> None:
    assert by_message(EVICTING)
    with pytest.raises(AssertionError):
        twice(by_message)(EVICTING)
