"""Marks of our own evacuations, which no host can forge.

The mark in a domain's definition says from where it was evacuated. By it a host that is back is
told to forget the domain, and a dead one's domain counts as started elsewhere. A host writes its
definitions as it likes, so each mark has a seal: a MAC by a key of the operator over the domain's
UUID and the mark. Whoever was given a domain by an evacuation has its mark, and nobody else.

Any definition may be the first thing that another process sees after a crash, so the seal lies in
it, and nothing has to be recorded elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import msgspec

from hypercobalt.adapters.libvirt.model import Domain, Evacuated
from hypercobalt.compute.direct.definitions import Stored

_PURPOSE: Final = b"hypercobalt evacuated\0"


class Marks:
    """Seals marks, and tells ours from others.

    Args:
        stored: has the keys.
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    async def sealed(self, uuid: str, mark: Evacuated) -> Evacuated:
        """A mark for a domain of that UUID.

        Raises:
            TransientError: the keys cannot be read.
        """
        keys = await self._stored.mark_keys()
        return replace(mark, seal=_seal(keys[0], uuid, mark)) if keys else mark

    async def only_ours(self, domains: Iterable[Domain]) -> tuple[Domain, ...]:
        """The same domains, without the marks that are not ours, of any host.

        Raises:
            TransientError: the keys cannot be read.
        """
        found = tuple(domains)
        if not any(one.marks for one in found):
            return found
        keys = await self._stored.mark_keys()
        return tuple(_with_ours(one, keys) if one.marks else one for one in found)


def _with_ours(domain: Domain, keys: tuple[bytes, ...]) -> Domain:
    uuid, mark = domain.uuid, domain.evacuated
    return replace(
        domain,
        evacuated=mark if mark and _is_ours(uuid, mark, keys) else None,
        earlier=tuple(one for one in domain.earlier if _is_ours(uuid, one, keys)),
    )


def _is_ours(uuid: str, mark: Evacuated, keys: Iterable[bytes]) -> bool:
    seal = mark.seal.encode()
    return any(hmac.compare_digest(_seal(key, uuid, mark).encode(), seal) for key in keys)


def _seal(key: bytes, uuid: str, mark: Evacuated) -> str:
    what = msgspec.json.encode((uuid, mark.host, mark.boot, mark.pending))
    return hmac.new(key, _PURPOSE + what, hashlib.sha256).hexdigest()
