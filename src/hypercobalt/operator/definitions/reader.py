"""Reads the definitions of a dead host, as its agent has stored them: untrusted bytes.

Whoever has taken a host over writes the object of that host as it likes. So its size is bounded
before it is decoded, opened or decompressed, what it is sealed for is compared with the Hypervisor
that the operator knows, and what does not fit is refused by name. The domains' documents are
checked by the modules that use them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.definitions import HostDefinitions, unpack
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.sealed_definitions import MOST_CHARACTERS, SealedDefinitions
from hypercobalt.api.sealing import KeyRing, Owner
from hypercobalt.compute.direct.starts import StartsUnderWay
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Kube

_MARKS: Final = b"marks of evacuations"

Keys = Callable[[], Awaitable[KeyRing]]
"""Returns the present keys; raises TransientError."""


class DefinitionsUnreadableError(TransientError):
    """The definitions of a host cannot be read; the message says why, without their content."""


def opened(found: SealedDefinitions, owner: Owner, keys: KeyRing) -> HostDefinitions:
    """Open the definitions that an agent has stored.

    Args:
        found: the object.
        owner: the Hypervisor that the object must belong to.
        keys: the operator's.

    Raises:
        DefinitionsUnreadableError: it is sealed for another key or host, damaged, or too large.
    """
    spec, what = found.spec, f"SealedDefinitions {found.metadata.namespace}/{owner.host}"
    key = keys.find(spec.key)
    if key is None:
        raise DefinitionsUnreadableError(
            f"definitions of host {owner.host} are sealed for key {spec.key[:16]}, which the "
            f"operator does not have ({', '.join(keys.ids)}); restore that key in its Secret, or "
            "start the host: its agent seals them again"
        )
    if spec.hypervisorUID != owner.uid:
        raise DefinitionsUnreadableError(
            f"{what} belongs to another Hypervisor of that name (UID {spec.hypervisorUID[:64]})"
        )
    if len(spec.sealed) > MOST_CHARACTERS:
        raise DefinitionsUnreadableError(f"{what}: longer than any host's")
    try:
        sealed = base64.b64decode(spec.sealed, validate=True)
        return unpack(key.open(sealed, owner))
    except (ValueError, binascii.Error) as error:
        raise DefinitionsUnreadableError(f"{what}: {error}") from None


class DefinitionsReader:
    """Reads definitions when a host is dead.

    Args:
        kube: reads the object.
        namespaces: where agents keep theirs.
        keys: the operator's, as they are in the API: another process may have made them.
        hypervisor: returns a Hypervisor that the operator knows.
        starts: the record of the domains' starts elsewhere.
    """

    def __init__(
        self,
        kube: Kube,
        namespaces: Iterable[str],
        keys: Keys,
        hypervisor: Callable[[str], Hypervisor | None],
        starts: StartsUnderWay,
    ) -> None:
        self._kube, self._namespaces = kube, tuple(dict.fromkeys(namespaces))
        self._keys, self._hypervisor = keys, hypervisor
        self.starts = starts

    async def of(self, host: str) -> HostDefinitions:
        """Return the definitions of a host.

        Raises:
            TransientError: they cannot be read.
        """
        known = self._hypervisor(host)
        if known is None:
            raise DefinitionsUnreadableError(f"host {host} has no Hypervisor")
        found = await self._find(host)
        if found is None:
            raise DefinitionsUnreadableError(
                f"host {host}: its node agent has stored no definitions (SealedDefinitions {host} "
                f"in {', '.join(self._namespaces)}); agents before 1.2 wrote the Secret "
                f"domains.{host}, which is not read any more"
            )
        keys, owner = await self._keys(), Owner(host, known.metadata.uid)
        read = await asyncio.to_thread(opened, found, owner, keys)
        return replace(read, version=f"{found.metadata.uid}/{found.metadata.resourceVersion}")

    async def mark_keys(self) -> tuple[bytes, ...]:
        """Return keys that seal the marks of evacuations, the present one first.

        Raises:
            TransientError: the operator's keys cannot be read.
        """
        return (await self._keys()).derived(_MARKS)

    async def _find(self, host: str) -> SealedDefinitions | None:
        for namespace in self._namespaces:
            if found := await self._kube.get(SealedDefinitions, host, namespace):
                return found
        return None
