"""Marks of our own evacuations, which no host can forge.

The mark in a domain's definition says from where it was evacuated. Because of the mark, a host that
is back has to forget the domain, and a dead host's domain counts as started elsewhere. A host may
write any definition, so each mark has a seal: a MAC by a key of the operator over the domain's UUID
and the mark. Only hosts that were given a domain by an evacuation have its mark.

Any definition may be the first thing that another process sees after a crash, so the seal lies in
it, and nothing has to be recorded elsewhere.

A pending mark is given to a target before anything is started there, and says that the start was
begun. Of one domain this process has one such mark at a time, with a number of its own: once the
start has failed, or another target was taken, that mark on a target that kept the definition and
runs it now proves nothing. A new process takes the marks that the last one has left for begun
starts.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import msgspec

from hypercobalt.adapters.libvirt.model import Domain, Evacuated
from hypercobalt.compute.direct.definitions import Stored

_PURPOSE: Final = b"hypercobalt evacuated\0"


class Marks:
    """Seals marks, and distinguishes this operator's marks from others.

    Args:
        stored: source of the keys.
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._begun: dict[tuple[str, str, str], str] = {}
        """Seal of the last pending mark, by UUID, host and boot; "" once its start has failed."""

    async def sealed(self, uuid: str, mark: Evacuated) -> Evacuated:
        """Return a mark for a domain of that UUID.

        Raises:
            TransientError: the keys cannot be read.
        """
        keys = await self._stored.mark_keys()
        if not keys:
            return mark
        if not mark.pending:
            return replace(mark, seal=_seal(keys[0], uuid, mark))
        number = secrets.token_hex(8)
        seal = f"{number}.{_seal(keys[0], uuid, mark, number)}"
        self._begun[uuid, mark.host, mark.boot] = seal
        return replace(mark, seal=seal)

    def failed(self, uuid: str, mark: Evacuated) -> None:
        """Note that the start announced by a pending mark has failed."""
        self._begun[uuid, mark.host, mark.boot] = ""

    async def only_ours(self, domains: Iterable[Domain]) -> tuple[Domain, ...]:
        """Return the same domains of any host, without marks that this operator has not sealed.

        Raises:
            TransientError: the keys cannot be read.
        """
        found = tuple(domains)
        if not any(one.marks for one in found):
            return found
        keys = await self._stored.mark_keys()
        return tuple(self._with_ours(one, keys) if one.marks else one for one in found)

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
        return self._begun.get((uuid, mark.host, mark.boot), mark.seal) != mark.seal


def _is_ours(uuid: str, mark: Evacuated, keys: Iterable[bytes]) -> bool:
    number, _, seal = mark.seal.rpartition(".")
    return any(
        hmac.compare_digest(_seal(key, uuid, mark, number).encode(), seal.encode()) for key in keys
    )


def _seal(key: bytes, uuid: str, mark: Evacuated, number: str = "") -> str:
    about = (uuid, mark.host, mark.boot, mark.pending)
    what = msgspec.json.encode((*about, number) if number else about)
    return hmac.new(key, _PURPOSE + what, hashlib.sha256).hexdigest()
