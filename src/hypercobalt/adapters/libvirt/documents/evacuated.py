"""The mark in a definition that a domain was evacuated: from which host, and from which boot of it.

It is an element of its own among the domain's metadata, which libvirt keeps and takes along. By it
the host that is back finds which of its own definitions are obsolete.

Source: libvirt's formatdomain.html, "General metadata".
"""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.documents.tree import Element
from hypercobalt.adapters.libvirt.model import Evacuated

TAG: Final = "hypercobalt:evacuated"
NAMESPACE: Final = "https://hypercobalt.invalid/domain/1"
WANTED: Final = f"metadata/{TAG}"
_PENDING: Final = "yes"


def of(root: Element) -> Evacuated | None:
    """The mark of a document; None without one."""
    found = root.first(WANTED)
    if found is None:
        return None
    pending = found.get("pending") == _PENDING
    return Evacuated(found.get("host"), found.get("boot"), pending, found.get("seal"))


def put(root: Element, mark: Evacuated) -> None:
    """Put a mark into a definition, in place of an older one."""
    attributes = {"xmlns:hypercobalt": NAMESPACE, "host": mark.host, "boot": mark.boot}
    if mark.pending:
        attributes["pending"] = _PENDING
    if mark.seal:
        attributes["seal"] = mark.seal
    metadata = root.first("metadata")
    if metadata is None:
        metadata = Element("metadata", {})
        root.children.append(metadata)
    others = [one for one in metadata.children if one.tag != TAG]
    metadata.children = [Element(TAG, attributes), *others]
