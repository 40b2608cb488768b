"""The mark in a definition that a domain was evacuated: from which host, and from which boot of it.

It is an element of its own among the domain's metadata, which libvirt keeps and takes along. By it
the host that is back finds which of its own definitions are obsolete. One that was evacuated again
keeps the marks of the hosts before: they may be back later than the one that it was on last. They
are children of the first one, as libvirt keeps one element of each namespace.

Source: libvirt's formatdomain.html, "General metadata"; virXMLNodeSanitizeNamespaces of
util/virxml.c.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.documents.tree import Element
from hypercobalt.adapters.libvirt.model import Evacuated

TAG: Final = "hypercobalt:evacuated"
EARLIER: Final = "hypercobalt:earlier"
MOST_EARLIER: Final = 7
"""Hosts that a domain was on before, of which each has died without being back since."""
NAMESPACE: Final = "https://hypercobalt.invalid/domain/1"
WANTED: Final = f"metadata/{TAG}"
_PENDING: Final = "yes"


def of(root: Element) -> Evacuated | None:
    """The mark of a document; None without one."""
    found = root.first(WANTED)
    return None if found is None else _mark(found)


def earlier_of(root: Element) -> tuple[Evacuated, ...]:
    """The marks of the hosts before, the last one first."""
    found = tuple(root.all(f"{WANTED}/{EARLIER}"))
    return tuple(map(_mark, found[:MOST_EARLIER]))


def put(root: Element, mark: Evacuated) -> None:
    """Put a mark into a definition, before those of other hosts."""
    known = (of(root), *earlier_of(root))
    before = [one for one in known if one and one.host != mark.host and not one.pending]
    made = Element(TAG, {"xmlns:hypercobalt": NAMESPACE, **_attributes(mark)})
    made.children = [Element(EARLIER, _attributes(one)) for one in before[:MOST_EARLIER]]
    metadata = root.first("metadata")
    if metadata is None:
        metadata = Element("metadata", {})
        root.children.append(metadata)
    others = [one for one in metadata.children if one.tag != TAG]
    metadata.children = [made, *others]


def _mark(found: Element) -> Evacuated:
    pending = found.get("pending") == _PENDING
    return Evacuated(found.get("host"), found.get("boot"), pending, found.get("seal"))


def _attributes(mark: Evacuated) -> dict[str, str]:
    made = {"host": mark.host, "boot": mark.boot}
    if mark.pending:
        made["pending"] = _PENDING
    if mark.seal:
        made["seal"] = mark.seal
    return made
