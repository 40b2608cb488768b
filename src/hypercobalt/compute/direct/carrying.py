"""Definitions on their way from one host to another: written anew, or refused by name.

Whoever has a host, or the token of its agent, decides what the host's definitions say. What another
host is given is therefore made by `documents.portable` from the site's allow-list.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.documents.portable.errors import NotPortableError
from hypercobalt.adapters.libvirt.documents.portable.rewriting import MOST_CHARACTERS, rewritten
from hypercobalt.adapters.libvirt.model import Evacuated
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_REMEMBERED: Final = 4096
"""Verdicts; each listing of a dead host asks for those of all its domains."""


class NotCarriedError(TransientError):
    """No other host is given the definition; the message has the element and the rule."""


class Carrying:
    """What the site lets pass.

    Args:
        allowed: see there.
    """

    def __init__(self, allowed: Allowed) -> None:
        self.allowed = allowed
        self._verdicts = OrderedDict[bytes, str]()

    def obstacle(self, xml: str, uuid: str) -> str:
        """Why no other host may start the domain; "" when one may."""
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
        """The document for the other host; see `rewritten`.

        Raises:
            NotCarriedError: it does not fit.
        """
        try:
            made = rewritten(xml, uuid, self.allowed, copies=copies, mark=mark)
        except NotPortableError as exc:
            raise NotCarriedError(f"its definition is not given to another host: {exc}") from None
        if made.dropped:
            log.info("definition_parts_dropped", server=uuid, parts=list(made.dropped))
        return made.xml
