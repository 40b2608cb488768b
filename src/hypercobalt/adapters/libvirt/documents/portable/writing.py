"""Writes a small tree as XML."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from hypercobalt.adapters.libvirt.documents.tree import Element


def written(root: Element) -> str:
    """The document of an element; an element has either text or children."""
    return "".join(_parts(root))


def _parts(element: Element) -> Iterator[str]:
    yield f"<{element.tag}"
    for name, value in element.attributes.items():
        yield f" {name}={quoteattr(value)}"
    if not element.children and not element.text:
        yield "/>"
        return
    yield ">"
    yield escape(element.text)
    for child in element.children:
        yield from _parts(child)
    yield f"</{element.tag}>"
