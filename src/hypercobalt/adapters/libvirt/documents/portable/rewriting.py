"""Rewrites a domain's definition for another host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hypercobalt.adapters.libvirt.documents import evacuated
from hypercobalt.adapters.libvirt.documents.portable import whole
from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.documents.portable.errors import NotPortableError
from hypercobalt.adapters.libvirt.documents.portable.paths import own_names
from hypercobalt.adapters.libvirt.documents.portable.table.domain import DOMAIN
from hypercobalt.adapters.libvirt.documents.portable.values import DOMAIN_NAME
from hypercobalt.adapters.libvirt.documents.portable.walk import Walk
from hypercobalt.adapters.libvirt.documents.portable.writing import written
from hypercobalt.adapters.libvirt.documents.tree import DocumentError, read
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
    """Rewrite a domain's definition for another host.

    Args:
        xml: as a host has stored it or hands it out.
        uuid: of the domain that the definition must be of.
        allowed: what the site lets a definition name.
        copies: disks below the local roots are copied along.
        mark: replaces the mark in the definition; None keeps that.

    Raises:
        NotPortableError: another host must not get the definition.
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
    walk = Walk(allowed, own_names(name, uuid), copies=copies)
    made = walk.element(root, DOMAIN, ("domain",))
    whole.check(made)
    if mark is not None:
        evacuated.put(made, mark)
    return Portable(written(made), tuple(dict.fromkeys(walk.dropped))[:_MOST_DROPPED])
