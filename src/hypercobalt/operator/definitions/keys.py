"""The operator's keys for the definitions of dead hosts, in one Secret of its own namespace.

The leader makes the Secret when there is none, so that of two processes one makes it and the other
reads it. Only a person changes it afterwards. `current.pem` is what agents seal with; every
other `*.pem` in it still opens what was sealed before, so a rotation loses nothing.

Without the private key the definitions of a host that is dead already cannot be read; living hosts
seal theirs again as soon as another key is published. Hence the Secret belongs into a backup.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Final

from hypercobalt.api.core import Secret
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.sealing import KeyRing, PrivateKey, SealError
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import AlreadyExistsError, Kube

log = get_logger(__name__)

CURRENT: Final = "current.pem"
SUFFIX: Final = ".pem"

REREAD: Final = timedelta(minutes=1)
"""How often the Secret is read: the role of the operator has `get` of this one name and no watch.
A rotation of the key takes effect after this time at most.
"""

_SECRET_TYPE: Final = "Opaque"  # noqa: S105


class KeysInvalidError(TransientError):
    """The Secret has no key, or an invalid one; a person has to correct it."""


def ring(secret: Secret) -> KeyRing:
    """Return the keys in a Secret.

    Raises:
        KeysInvalidError: a key cannot be read; the message has its name, and nothing of its
            content.
    """
    found = dict[str, PrivateKey]()
    where = f"Secret {secret.metadata.namespace}/{secret.metadata.name}"
    for name, pem in sorted(secret.data.items()):
        if name.endswith(SUFFIX):
            try:
                found[name] = PrivateKey.read(pem)
            except SealError as error:
                raise KeysInvalidError(f"{where}: {name}: {error}") from None
    if CURRENT not in found:
        raise KeysInvalidError(f"{where} has no {CURRENT}")
    return KeyRing(found[CURRENT], found.values())


class DefinitionsKeys:
    """Reads the Secret, and makes it when this process leads.

    Args:
        kube: the operator's, which writes only while it leads.
        name: of the Secret.
        namespace: of the Secret: the operator's own.
    """

    def __init__(self, kube: Kube, name: str, namespace: str) -> None:
        self._kube, self._name, self._namespace = kube, name, namespace
        self._known: KeyRing | None = None
        self._reading = asyncio.Lock()

    @property
    def known(self) -> KeyRing | None:
        """Keys at the last read; None before the first."""
        return self._known

    async def read(self) -> KeyRing:
        """Read the keys again; a missing Secret is created.

        Raises:
            TransientError: the Secret cannot be read or created.
        """
        async with self._reading:
            found = await self._kube.get(Secret, self._name, self._namespace)
            if found is None:
                found = await self._make()
            keys = ring(found)
            if self._known is None or self._known.ids != keys.ids:
                log.info("definitions_keys_read", current=keys.current.public.id, keys=keys.ids)
            self._known = keys
            return keys

    async def _make(self) -> Secret:
        meta = ObjectMeta(name=self._name, namespace=self._namespace)
        key = PrivateKey.make()
        made = Secret(metadata=meta, data={CURRENT: key.pem()}, type=_SECRET_TYPE)
        with contextlib.suppress(AlreadyExistsError):  # by another process, which led before
            await self._kube.create(made)
            log.info("definitions_key_made", key=key.public.id, secret=self._name)
        found = await self._kube.get(Secret, self._name, self._namespace)
        if found is None:
            where = f"{self._namespace}/{self._name}"
            raise TransientError(f"Secret {where} was deleted as soon as it was made")
        return found
