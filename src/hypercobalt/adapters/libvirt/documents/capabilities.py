"""Reads `virsh capabilities`: the host's UUID, architecture and NUMA cells.

Source: libvirt's formatcaps.html; elements `host/uuid`, `host/cpu/arch` and
`host/topology/cells/cell`.
"""

from __future__ import annotations

import re

from hypercobalt.adapters.libvirt.documents.scaled import memory_bytes, number
from hypercobalt.adapters.libvirt.documents.tree import DocumentError, Element, read
from hypercobalt.adapters.libvirt.model import HostCapabilities, HostCell

_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_MAX_CPUS = 16 * 1024


def parse(document: str | bytes) -> HostCapabilities:
    """Read the document; a host whose driver lists no topology has no cells here.

    Raises:
        DocumentError: it cannot be read, or a cell has no id or an amount that is none.
    """
    root = read(document, root="capabilities", wanted=frozenset({"host"}))
    host = root.first("host") or Element("host", {})
    cells = tuple(_cell(cell) for cell in host.all("topology/cells/cell"))
    return HostCapabilities(
        arch=host.text_of("cpu/arch") or "unknown", cells=cells, uuid=_uuid(host.text_of("uuid"))
    )


def _uuid(text: str) -> str:
    """Return a UUID in its one form; "" if the text is no UUID."""
    return text.lower() if _UUID.fullmatch(text) else ""


def _cell(cell: Element) -> HostCell:
    name = f"cell {cell.get('id')[:20]!r}"
    try:
        memory = cell.first("memory")
        ids = [number(cpu.get("id"), _MAX_CPUS) for cpu in cell.all("cpus/cpu") if cpu.get("id")]
        listed = cell.first("cpus")
        count = listed.get("num") if listed else ""
        return HostCell(
            id=number(cell.get("id")),
            memory_bytes=memory_bytes(memory.text, memory.get("unit")) if memory else 0,
            cpus=frozenset(ids),
            cpu_count=number(count, _MAX_CPUS) if count else len(ids),
        )
    except ValueError as exc:
        raise DocumentError(f"{name}: {exc}") from exc
