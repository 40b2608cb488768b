"""Names the parts of a definition that another host may lack: all that the table does not have.

By the same table a definition is rewritten for another host. What a site allows (`Named`) is not
checked here: whether hosts share a file is looked up on them, and the rest when the definition is
written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.errors import NotPortableError, at, shown
from hypercobalt.adapters.libvirt.documents.portable.naming import name_of
from hypercobalt.adapters.libvirt.documents.portable.rules import Entry
from hypercobalt.adapters.libvirt.documents.portable.table.devices import DEVICES
from hypercobalt.adapters.libvirt.documents.portable.table.domain import DOMAIN
from hypercobalt.adapters.libvirt.documents.portable.walk import Walk
from hypercobalt.adapters.libvirt.documents.tree import Element

_ROOT: Final = "domain"
_ELSEWHERE: Final = frozenset({"metadata", "devices"})
"""Children of the root: nothing on a host reads the first, each part of the second is judged."""


def unportable(root: Element) -> Iterator[str]:
    """Yield names of what keeps a definition on its host: parts of the root, then devices."""
    for attribute, value in root.attributes.items():
        form = DOMAIN.attributes.get(attribute)
        if attribute not in DOMAIN.dropped and not (form and Walk(None).fits(value, form)):
            yield f"attribute {shown(attribute)} of <{_ROOT}>"
    for part in root.children:
        if part.tag not in _ELSEWHERE:
            path = (_ROOT, part.tag)
            if (why := _refused(part, DOMAIN.children.get(part.tag), path)) is not None:
                yield at(path) + why
    for devices in root.all("devices"):
        for device in devices.children:
            entry = DEVICES.children.get(device.tag)
            if (why := _refused(device, entry, (_ROOT, "devices", device.tag))) is not None:
                yield name_of(device) + why


def _refused(found: Element, entry: Entry | None, path: tuple[str, ...]) -> str | None:
    """What to add to the name of a part that is not portable; None for one that is."""
    if entry is None:
        return ""
    try:
        Walk(None).entry(found, entry, path)
    except NotPortableError as exc:
        return f" ({exc})"
    return None
