"""What is remembered of a domain holds until the domain changes."""

from __future__ import annotations

from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.documents.domain import Definition

SMALL, LARGE = Definition(memory_bytes=1), Definition(memory_bytes=2)


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def known(definitions: Definitions, uuid: str = "a") -> Definition | None:
    definitions.keep(uuid, SMALL, definitions.start_reading(uuid))
    return definitions.get(uuid)


def test_what_was_read_is_known() -> None:
    definitions = Definitions()

    assert definitions.get("a") is None
    assert known(definitions) == SMALL


def test_a_change_makes_it_unknown() -> None:
    definitions = Definitions()
    known(definitions)

    definitions.forget("a")

    assert definitions.get("a") is None


def test_a_change_while_it_is_read_wins() -> None:
    definitions = Definitions()
    ticket = definitions.start_reading("a")

    definitions.forget("a")
    definitions.keep("a", SMALL, ticket)

    assert definitions.get("a") is None


def test_a_call_that_was_left_behind_does_not_overwrite_a_later_one() -> None:
    definitions = Definitions()
    old = definitions.start_reading("a")
    definitions.forget("a")
    new = definitions.start_reading("a")

    definitions.keep("a", SMALL, old)
    definitions.keep("a", LARGE, new)

    assert definitions.get("a") == LARGE


def test_a_new_connection_knows_nothing() -> None:
    definitions = Definitions()
    known(definitions)
    ticket = definitions.start_reading("b")

    definitions.forget_all()
    definitions.keep("b", SMALL, ticket)

    assert (definitions.get("a"), definitions.get("b")) == (None, None)


def test_it_is_read_again_after_four_minutes() -> None:
    time = Time()
    definitions = Definitions(time)
    known(definitions)

    time.now += 239
    assert definitions.get("a") == SMALL
    time.now += 1
    assert definitions.get("a") is None


def test_domains_that_are_gone_are_dropped() -> None:
    definitions = Definitions()
    known(definitions, "a")
    known(definitions, "b")

    definitions.retain({"b"})

    assert definitions.get("a") is None
    assert definitions.get("b") == SMALL
