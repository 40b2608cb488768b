"""Marks of our own evacuations, which no host can forge.

The mark in a domain's definition says from where it was evacuated. Because of the mark, a host that
is back has to forget the domain, and a dead host's domain counts as started elsewhere. A host may
write any definition, so each mark has a seal: a MAC by a key of the operator over the domain's UUID
and the mark. Only hosts that were given a domain by an evacuation have its mark.

Any definition may be the first thing that another process sees after a crash, so the seal lies in
it, and nothing has to be recorded elsewhere.

A pending mark is given to a target before anything is started there, and says that the start was
begun. It has a number, which is recorded (`starts`): once the start has failed, or another target
was taken, that mark on a target that kept the definition and runs it now proves nothing. A domain
that has started has the pending mark in the document of its process until that ends. The evacuation
of a domain that is off is recorded as well: what is not in the record has gone to no host.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import msgspec

from hypercobalt.adapters.libvirt.model import Domain, Evacuated
from hypercobalt.compute.direct.definitions import Stored
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_TOGETHER: Final = 200
"""Domains whose marks are looked at without a break: some 20 ms."""
_PURPOSE: Final = b"hypercobalt evacuated\0"


class Marks:
    """Seals marks, and distinguishes this operator's marks from others.

    Args:
        stored: source of the keys, and the record of starts.
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._ended = set[str]()
        """Numbers of starts that have ended, whether that could be recorded or not."""

    async def sealed(self, uuid: str, mark: Evacuated) -> Evacuated:
        """Return a mark for a domain of that UUID.

        Raises:
            TransientError: the keys cannot be read, or the evacuation not recorded.
        """
        keys, starts = await self._stored.mark_keys(), self._stored.starts
        if not keys:
            return mark
        number = secrets.token_hex(8)
        if mark.pending or not starts.of(mark.host, mark.boot).get(uuid):
            await starts.note(mark.host, mark.boot, uuid, number)
        if not mark.pending:
            return replace(mark, seal=_seal(keys[0], uuid, mark))
        return replace(mark, seal=f"{number}.{_seal(keys[0], uuid, mark, number)}")

    def begun(self, host: str, boot: str) -> frozenset[str]:
        """Return UUIDs of domains of a dead host whose evacuation was begun and has not failed.

        Args:
            host: that was fenced.
            boot: its fenced boot.
        """
        numbers = self._stored.starts.of(host, boot)
        return frozenset(uuid for uuid, number in numbers.items() if number)

    async def ended(self, uuid: str, mark: Evacuated) -> None:
        """Note that the start announced by a pending mark has failed."""
        starts = self._stored.starts
        if not (number := starts.of(mark.host, mark.boot).get(uuid)):
            return
        self._ended.add(number)
        try:
            await starts.note(mark.host, mark.boot, uuid, "")
        except TransientError as exc:
            log.warning("end_of_start_not_recorded", server=uuid, host=mark.host, error=str(exc))

    async def only_ours(self, domains: Iterable[Domain]) -> tuple[Domain, ...]:
        """Return the same domains of any host, without marks that this operator has not sealed.

        Raises:
            TransientError: the keys cannot be read.
        """
        found = tuple(domains)
        if not any(one.marks for one in found):
            return found
        keys, ours = await self._stored.mark_keys(), list[Domain]()
        for count, one in enumerate(found):
            ours.append(self._with_ours(one, keys) if one.marks else one)
            if count % _TOGETHER == _TOGETHER - 1:
                await asyncio.sleep(0)  # a captured host stores thousands of marks
        return tuple(ours)

    def _with_ours(self, domain: Domain, keys: tuple[bytes, ...]) -> Domain:
        def is_ours(mark: Evacuated) -> bool:
            void = domain.active and mark.pending and self._is_void(domain.uuid, mark)
            return not void and _is_ours(domain.uuid, mark, keys)

        mark = domain.evacuated
        return replace(
            domain,
            evacuated=mark if mark and is_ours(mark) else None,
            earlier=tuple(one for one in domain.earlier if is_ours(one)),
        )

    def _is_void(self, uuid: str, mark: Evacuated) -> bool:
        number = mark.seal.rpartition(".")[0]
        begun = self._stored.starts.of(mark.host, mark.boot).get(uuid)
        # Of a start by an operator before the record there is no number; its seal alone counts.
        return begun not in {None, number} or number in self._ended


def _is_ours(uuid: str, mark: Evacuated, keys: Iterable[bytes]) -> bool:
    number, _, seal = mark.seal.rpartition(".")
    return any(
        hmac.compare_digest(_seal(key, uuid, mark, number).encode(), seal.encode()) for key in keys
    )


def _seal(key: bytes, uuid: str, mark: Evacuated, number: str = "") -> str:
    about = (uuid, mark.host, mark.boot, mark.pending)
    what = msgspec.json.encode((*about, number) if number else about)
    return hmac.new(key, _PURPOSE + what, hashlib.sha256).hexdigest()
