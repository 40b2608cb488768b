"""A kept definition holds until its domain changes."""

from __future__ import annotations

from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.documents.domain import Definition

ID = 7  # of a run of a domain
SMALL, LARGE = Definition(memory_bytes=1), Definition(memory_bytes=2)


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def known(definitions: Definitions, uuid: str = "a") -> Definition | None:
    definitions.keep(uuid, ID, SMALL, definitions.start_reading(uuid))
    return definitions.get(uuid, ID)


def test_definition_that_was_read_is_kept() -> None:
    definitions = Definitions()

    assert definitions.get("a", ID) is None
    assert known(definitions) == SMALL


def test_change_drops_the_kept_definition() -> None:
    definitions = Definitions()
    known(definitions)

    definitions.forget("a")

    assert definitions.get("a", ID) is None


def test_a_new_run_of_the_domain_is_read() -> None:
    definitions = Definitions()
    known(definitions)

    assert definitions.get("a", ID + 1) is None


def test_a_change_while_it_is_read_wins() -> None:
    definitions = Definitions()
    ticket = definitions.start_reading("a")

    definitions.forget("a")
    definitions.keep("a", ID, SMALL, ticket)

    assert definitions.get("a", ID) is None


def test_a_call_that_was_left_behind_does_not_overwrite_a_later_one() -> None:
    definitions = Definitions()
    old = definitions.start_reading("a")
    definitions.forget("a")
    new = definitions.start_reading("a")

    definitions.keep("a", ID, SMALL, old)
    definitions.keep("a", ID, LARGE, new)

    assert definitions.get("a", ID) == LARGE


def test_new_connection_has_no_definitions() -> None:
    definitions = Definitions()
    known(definitions)
    ticket = definitions.start_reading("b")

    definitions.forget_all()
    definitions.keep("b", ID, SMALL, ticket)

    assert (definitions.get("a", ID), definitions.get("b", ID)) == (None, None)


def test_definition_is_read_again_after_four_minutes() -> None:
    time = Time()
    definitions = Definitions(time)
    known(definitions)

    time.now += 239
    assert definitions.get("a", ID) == SMALL
    time.now += 1
    assert definitions.get("a", ID) is None


def test_document_that_is_the_same_as_before_is_not_parsed_again() -> None:
    definitions = Definitions()
    assert definitions.same("a", "<domain/>") is None
    definitions.parsed("a", "<domain/>", SMALL)

    definitions.forget_all()

    assert definitions.same("a", "<domain/>") is SMALL
    assert definitions.same("a", "<domain />") is None
    assert definitions.same("b", "<domain/>") is None
    definitions.retain({"b"})
    assert definitions.same("a", "<domain/>") is None


def test_domains_that_are_gone_are_dropped() -> None:
    definitions = Definitions()
    known(definitions, "a")
    known(definitions, "b")

    definitions.retain({"b"})

    assert definitions.get("a", ID) is None
    assert definitions.get("b", ID) == SMALL
