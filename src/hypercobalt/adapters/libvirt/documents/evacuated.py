"""The mark in a definition that a domain was evacuated: from which host, and from which boot of it.

It is an element of its own among the domain's metadata, which libvirt keeps and takes along. By it
the host that is back finds which of its own definitions are obsolete.

Source: libvirt's formatdomain.html, "General metadata".
"""

from __future__ import annotations

import re
from typing import Final
from xml.sax.saxutils import quoteattr

from hypercobalt.adapters.libvirt.documents.tree import Element
from hypercobalt.adapters.libvirt.model import Evacuated

_TAG: Final = "hypercobalt:evacuated"
_NAMESPACE: Final = "https://hypercobalt.invalid/domain/1"
WANTED: Final = f"metadata/{_TAG}"
_OWN: Final = re.compile(rf"\s*<{_TAG}\b[^<>]*/>")
_PENDING: Final = "yes"


def of(root: Element) -> Evacuated | None:
    """The mark of a document; None without one."""
    found = root.first(WANTED)
    if found is None:
        return None
    return Evacuated(found.get("host"), found.get("boot"), found.get("pending") == _PENDING)


def marked(xml: str, mark: Evacuated) -> str:
    """A document as libvirt writes them, with this mark in place of an older one.

    Raises:
        ValueError: it is the document of no domain.
    """
    pending = f" pending={quoteattr(_PENDING)}" if mark.pending else ""
    element = (
        f"<{_TAG} xmlns:hypercobalt={quoteattr(_NAMESPACE)} host={quoteattr(mark.host)} "
        f"boot={quoteattr(mark.boot)}{pending}/>"
    )
    bare = _OWN.sub("", xml)
    before, metadata, after = bare.partition("<metadata>")
    if metadata:
        return f"{before}{metadata}{element}{after}"
    before, end, after = bare.replace("<metadata/>", "", 1).rpartition("</domain>")
    if not end:
        raise ValueError("the document of a domain has no end")
    return f"{before}<metadata>{element}</metadata>{end}{after}"
