"""Definitions on their way from one host to another: each is rewritten, or refused by name.

Whoever controls a host, or the token of its agent, decides what the host's definitions contain. So
`documents.portable` makes the definition for the other host from the site's allow-list.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from hypercobalt.adapters.libvirt.documents.domain import parse
from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.documents.portable.errors import NotPortableError
from hypercobalt.adapters.libvirt.documents.portable.rewriting import MOST_CHARACTERS, rewritten
from hypercobalt.adapters.libvirt.model import Domain, Evacuated
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_REMEMBERED: Final = 4096
"""Number of verdicts that are kept: a listing of a dead host needs one for each of its domains."""


class NotCarriedError(TransientError):
    """No other host is given the definition; the message names the element and the rule."""


def as_carried(domain: Domain, xml: str) -> Domain:
    """Return a domain with the name and the devices that another host gets.

    Args:
        domain: as its host lists it, or has stored it.
        xml: the document for the other host.
    """
    found = parse(xml)
    return replace(domain, name=found.name, devices=found.devices)


class Carrying:
    """Rules of the site for definitions that go to another host.

    Args:
        allowed: the site's allow-list.
    """

    def __init__(self, allowed: Allowed) -> None:
        self.allowed = allowed
        self._verdicts = OrderedDict[bytes, str]()

    def obstacle(self, xml: str, uuid: str) -> str:
        """Return why no other host may start the domain; "" when one may."""
        if len(xml) > MOST_CHARACTERS:
            return self._judged(xml, uuid)
        key = hashlib.sha256(f"{uuid}\0{xml}".encode(errors="replace")).digest()
        if key not in self._verdicts:
            self._verdicts[key] = self._judged(xml, uuid)
            if len(self._verdicts) > _REMEMBERED:
                self._verdicts.popitem(last=False)
        return self._verdicts[key]

    def _judged(self, xml: str, uuid: str) -> str:
        try:
            self.written(xml, uuid)
        except NotCarriedError as exc:
            return str(exc)
        return ""

    def written(
        self, xml: str, uuid: str, *, copies: bool = False, mark: Evacuated | None = None
    ) -> str:
        """Return the document for the other host; see `rewritten`.

        Raises:
            NotCarriedError: the definition does not fit the rules.
        """
        try:
            made = rewritten(xml, uuid, self.allowed, copies=copies, mark=mark)
        except NotPortableError as exc:
            raise NotCarriedError(f"its definition is not given to another host: {exc}") from None
        if made.dropped:
            log.info("definition_parts_dropped", server=uuid, parts=list(made.dropped))
        return made.xml
