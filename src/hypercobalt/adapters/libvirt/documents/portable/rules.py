"""The types of the table: which elements there may be, with which attributes and children."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Form:
    """A value by its form.

    Args:
        rule: as a message has it, after "must be".
        pattern: that the whole value matches.
    """

    rule: str
    pattern: re.Pattern[str]


_OWN: Final = (
    "named after the domain, by its UUID or by its name if that begins with no other domain's UUID"
)


class Named(StrEnum):
    """A value that the site allows, by the rule as a message has it, after "must be"."""

    DISK_FILE = "a file below a shared root of the site (--direct-shared-roots)"
    VARIABLES = f"a file {_OWN}, below a shared root (--direct-shared-roots)"
    LOG = f"a file {_OWN}, below a shared root"
    SOCKET = f"a socket {_OWN}, below --direct-console-roots"
    KERNEL = "a file below --direct-kernel-roots"
    FIRMWARE = "a file below --direct-firmware-roots"
    NETWORK = "one of --direct-networks"
    FORMAT = "one of --direct-image-formats"
    STORAGE_HOST = "one of --direct-storage-hosts"


Value: TypeAlias = Form | Named


@dataclass(frozen=True, slots=True)
class Rule:
    """One element.

    Args:
        attributes: what it may have.
        required: of these, those that it must have.
        dropped: attributes that are not passed on: libvirt fills them in.
        fixed: attributes that are written with these values, whatever the definition has.
        text: its text; None for an element without one.
        children: elements that it may have, by tag.
        others_dropped: other children are dropped instead of refused.
        most: of this tag there may be below one parent.
    """

    attributes: Mapping[str, Value] = field(default_factory=dict[str, Value])
    required: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    fixed: Mapping[str, str] = field(default_factory=dict[str, str])
    text: Value | None = None
    children: Mapping[str, Entry] = field(default_factory=dict[str, "Entry"])
    others_dropped: bool = False
    most: int = 1


@dataclass(frozen=True, slots=True)
class Choice:
    """An element whose rule depends on one of its attributes.

    Args:
        attribute: that decides.
        rules: by its value.
        most: see `Rule`.
        default: value that counts without the attribute; "" makes it required.
    """

    attribute: str
    rules: Mapping[str, Rule]
    most: int = 1
    default: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """An element that is not passed on, with all that is in it.

    Args:
        most: see `Rule`.
    """

    most: int = 64


@dataclass(frozen=True, slots=True)
class Optional:
    """An element that is passed on where it fits, and dropped where not: the guest needs none.

    Args:
        rule: of the element.
        noted: that it was dropped is reported.
    """

    rule: Rule
    noted: bool = False

    @property
    def most(self) -> int:
        return self.rule.most


@dataclass(frozen=True, slots=True)
class Inert:
    """An element that nothing on a host interprets, with descendants of any name.

    Args:
        prefix: of its names.
        namespace: that the prefix stands for.
    """

    prefix: str
    namespace: Form
    most: int = 1


Entry: TypeAlias = Rule | Choice | Dropped | Optional | Inert


def element(
    children: Mapping[str, Entry] | None = None,
    more: Mapping[str, Value] | None = None,
    /,
    *,
    text: Value | None = None,
    most: int = 1,
    required: str = "",
    dropped: str = "",
    **attributes: Value,
) -> Rule:
    """Make a rule: attributes as keywords; `required` and `dropped` are names with blanks."""
    return Rule(
        attributes={**attributes, **(more or {})},
        required=frozenset(required.split()),
        dropped=frozenset(dropped.split()),
        text=text,
        children=children or {},
        most=most,
    )
