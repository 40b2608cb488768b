"""Walks a document along the table, and makes of it one that has nothing but the table's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from hypercobalt.adapters.libvirt.documents import evacuated
from hypercobalt.adapters.libvirt.documents.portable import whole
from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.documents.portable.errors import NotPortableError, at, shown
from hypercobalt.adapters.libvirt.documents.portable.inert import copied
from hypercobalt.adapters.libvirt.documents.portable.paths import is_below, is_own
from hypercobalt.adapters.libvirt.documents.portable.rules import (
    Choice,
    Dropped,
    Entry,
    Form,
    Inert,
    Named,
    Optional,
    Rule,
    Value,
)
from hypercobalt.adapters.libvirt.documents.portable.table.domain import DOMAIN
from hypercobalt.adapters.libvirt.documents.portable.values import DOMAIN_NAME
from hypercobalt.adapters.libvirt.documents.portable.writing import written
from hypercobalt.adapters.libvirt.documents.tree import DocumentError, Element, read
from hypercobalt.adapters.libvirt.model import Evacuated

MOST_CHARACTERS: Final = 512 * 1024  # a guest with 500 devices has half of that
_MOST_ELEMENTS: Final = 16_000
_MOST_DROPPED: Final = 20  # are named


@dataclass(frozen=True, slots=True)
class Portable:
    """A definition that another host may have.

    Args:
        xml: with the passwords of the original; never to be logged.
        dropped: elements of the original that the site does not allow and a guest can do without,
            such as `<devices/serial/log>`.
    """

    xml: str = field(repr=False)
    dropped: tuple[str, ...] = ()


def rewritten(
    xml: str,
    uuid: str,
    allowed: Allowed,
    *,
    copies: bool = False,
    mark: Evacuated | None = None,
) -> Portable:
    """Write a domain's definition anew.

    Args:
        xml: as a host has stored it or hands it out.
        uuid: of the domain that it has to be.
        allowed: what the site lets it name.
        copies: disks below the local roots are copied along.
        mark: put in place of the mark that it has; None keeps that.

    Raises:
        NotPortableError: another host must not have it.
    """
    if len(xml) > MOST_CHARACTERS:
        raise NotPortableError(f"its definition has more than {MOST_CHARACTERS} characters")
    try:
        root = read(xml, root="domain", wanted=None, most=_MOST_ELEMENTS)
    except DocumentError as exc:
        raise NotPortableError(f"its definition cannot be read: {exc}") from None
    if root.text_of("uuid").lower() != uuid.lower():
        raise NotPortableError("<uuid> is not that of the instance")
    name = root.text_of("name")
    if DOMAIN_NAME.pattern.fullmatch(name) is None:
        raise NotPortableError(f"<name> must be {DOMAIN_NAME.rule}")
    walk = _Walk(allowed, (name, uuid.lower()), copies=copies)
    made = walk.element(root, DOMAIN, ("domain",))
    whole.check(made)
    if mark is not None:
        evacuated.put(made, mark)
    return Portable(written(made), tuple(dict.fromkeys(walk.dropped))[:_MOST_DROPPED])


class _Walk:
    """One walk.

    Args:
        allowed: see there.
        names: of the domain, for files that are its own.
        copies: see `rewritten`.
    """

    def __init__(self, allowed: Allowed, names: tuple[str, ...], *, copies: bool) -> None:
        self._allowed, self._names = allowed, names
        self._disks = (*allowed.shared, *allowed.local) if copies else allowed.shared
        self.dropped: list[str] = []

    def element(self, found: Element, rule: Rule, path: tuple[str, ...]) -> Element:
        """One element, made anew.

        Raises:
            NotPortableError: it does not fit.
        """
        made = Element(path[-1], self._attributes(found, rule, path))  # a key of the table
        made.text = self._text(found, rule, path)
        counted = Counter[str]()
        for child in found.children:
            below = (*path, child.tag)
            entry = rule.children.get(child.tag)
            if entry is None and rule.others_dropped:
                self.dropped.append(at(below))
                continue
            if entry is None:
                raise NotPortableError(f"{at(below)} is not among the elements that may move")
            counted[child.tag] += 1
            if counted[child.tag] > entry.most:
                raise NotPortableError(f"{at(below)} stands there more than {entry.most} times")
            if (kept := self._entry(child, entry, below)) is not None:
                made.children.append(kept)
        return made

    def _entry(self, found: Element, entry: Entry, path: tuple[str, ...]) -> Element | None:
        match entry:
            case Rule():
                return self.element(found, entry, path)
            case Choice():
                return self.element(found, _chosen(found, entry, path), path)
            case Dropped():
                return None
            case Optional():
                try:
                    return self.element(found, entry.rule, path)
                except NotPortableError:
                    if entry.noted:
                        self.dropped.append(at(path))
                    return None
            case Inert():
                kept = copied(found, entry)
                if kept is None:
                    self.dropped.append(at(path))
                return kept

    def _attributes(self, found: Element, rule: Rule, path: tuple[str, ...]) -> dict[str, str]:
        made = dict[str, str]()
        for name, value in found.attributes.items():
            if name in rule.dropped:
                continue
            allowed = rule.attributes.get(name)
            if allowed is None:
                what = f"attribute {shown(name)} of {at(path)}"
                raise NotPortableError(f"{what} is not among those that may move")
            if not self._fits(value, allowed):
                what = f"attribute {shown(name)} of {at(path)}"
                raise NotPortableError(f"{what} must be {_rule(allowed)}")
            made[name] = value
        if missing := rule.required - made.keys():
            raise NotPortableError(f"{at(path)} lacks the attribute {min(missing)}")
        return made

    def _text(self, found: Element, rule: Rule, path: tuple[str, ...]) -> str:
        text = found.text.strip()
        if rule.text is None:
            if text:
                raise NotPortableError(f"{at(path)} has a text")
            return ""
        if not self._fits(text, rule.text):
            raise NotPortableError(f"the text of {at(path)} must be {_rule(rule.text)}")
        return text

    def _fits(self, value: str, allowed: Value) -> bool:
        site = self._allowed
        match allowed:
            case Form():
                return allowed.pattern.fullmatch(value) is not None
            case Named.DISK_FILE:
                return is_below(value, self._disks)
            case Named.VARIABLES:
                return is_below(value, self._disks) and is_own(value, self._names)
            case Named.LOG:
                return is_below(value, site.shared) and is_own(value, self._names)
            case Named.SOCKET:
                return is_below(value, site.consoles) and is_own(value, self._names)
            case Named.KERNEL:
                return is_below(value, site.kernels)
            case Named.FIRMWARE:
                return is_below(value, site.firmware)
            case Named.NETWORK:
                return value in site.networks
            case Named.FORMAT:
                return value in site.formats
            case Named.STORAGE_HOST:
                return value in site.storage_hosts


def _chosen(found: Element, choice: Choice, path: tuple[str, ...]) -> Rule:
    value = found.get(choice.attribute, choice.default)
    rule = choice.rules.get(value)
    if rule is None:
        words = ", ".join(filter(None, choice.rules))
        given = f"{choice.attribute}='{shown(value)}'" if value else f"no {choice.attribute}"
        raise NotPortableError(f"{at(path)} has {given}: it must be one of {words}")
    return rule


def _rule(allowed: Value) -> str:
    return allowed.rule if isinstance(allowed, Form) else str(allowed)
