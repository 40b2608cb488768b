"""Walks elements along the table, and makes new ones that have only what the table allows."""

from __future__ import annotations

from collections import Counter

from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.documents.portable.errors import NotPortableError, at, shown
from hypercobalt.adapters.libvirt.documents.portable.inert import copied
from hypercobalt.adapters.libvirt.documents.portable.paths import is_below, is_own_below
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
from hypercobalt.adapters.libvirt.documents.tree import Element


class Walk:
    """One walk.

    Args:
        allowed: see there; None: whatever a site may allow.
        names: of the domain, for files that are its own.
        copies: see `rewritten`.
    """

    def __init__(
        self, allowed: Allowed | None, names: tuple[str, ...] = (), *, copies: bool = False
    ) -> None:
        self._allowed, self._names, self._copies = allowed, names, copies
        self.dropped: list[str] = []

    def element(self, found: Element, rule: Rule, path: tuple[str, ...]) -> Element:
        """Make one element from the table.

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
            if (kept := self.entry(child, entry, below)) is not None:
                made.children.append(kept)
        return made

    def entry(self, found: Element, entry: Entry, path: tuple[str, ...]) -> Element | None:
        """What is made of an element; None for one that is not passed on.

        Raises:
            NotPortableError: it does not fit.
        """
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
            if name in rule.dropped or name in rule.fixed:
                continue
            allowed = rule.attributes.get(name)
            if allowed is None:
                what = f"attribute {shown(name)} of {at(path)}"
                raise NotPortableError(f"{what} is not among those that may move")
            if not self.fits(value, allowed):
                what = f"attribute {shown(name)} of {at(path)}"
                raise NotPortableError(f"{what} must be {_rule(allowed)}")
            made[name] = value
        if missing := rule.required - made.keys():
            raise NotPortableError(f"{at(path)} lacks the attribute {min(missing)}")
        return {**made, **rule.fixed}

    def _text(self, found: Element, rule: Rule, path: tuple[str, ...]) -> str:
        text = found.text.strip()
        if rule.text is None:
            if text:
                raise NotPortableError(f"{at(path)} has a text")
            return ""
        if not self.fits(text, rule.text):
            raise NotPortableError(f"the text of {at(path)} must be {_rule(rule.text)}")
        return text

    def fits(self, value: str, allowed: Value) -> bool:
        """Whether a value is one that the table, and the site, allow."""
        if isinstance(allowed, Form):
            return allowed.pattern.fullmatch(value) is not None
        return self._allowed is None or self._is_allowed(value, allowed, self._allowed)

    def _is_allowed(self, value: str, named: Named, site: Allowed) -> bool:
        disks = site.directories if self._copies else site.shared
        match named:
            case Named.DISK_FILE:
                return is_below(value, disks)
            case Named.VARIABLES:
                return is_own_below(value, disks, self._names)
            case Named.LOG:
                return is_own_below(value, site.shared, self._names)
            case Named.SOCKET:
                return is_own_below(value, site.consoles, self._names)
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
