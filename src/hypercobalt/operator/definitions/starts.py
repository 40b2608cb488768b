"""Record of the starts of a dead host's domains, in an annotation of its Hypervisor.

No agent may write it: a write of the status changes no metadata, and agents have no other right on
Hypervisors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace as with_fields

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Struct
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Kube
from hypercobalt.runtime.write_cache import WriteCache

STARTS: Final = "kvm.cloud.sap/starts-under-way"
"""Annotation of a Hypervisor: the starts that were begun and have not failed, as JSON."""


class _Record(Struct, frozen=True):
    boot: str = ""
    numbers: Mapping[str, str] = MappingProxyType({})


class RecordedStarts:
    """See `hypercobalt.compute.direct.starts.StartsUnderWay`.

    Args:
        kube: writes the annotation.
        hypervisors: all that the operator knows.
    """

    def __init__(self, kube: Kube, hypervisors: WriteCache[Hypervisor]) -> None:
        self._kube, self._hypervisors = kube, hypervisors

    def of(self, host: str, boot: str) -> Mapping[str, str]:
        known = self._hypervisors.get(host)
        return _numbers(known, boot) if known is not None else {}

    async def note(self, host: str, boot: str, uuid: str, number: str) -> None:
        def changed(found: Hypervisor) -> Hypervisor:
            """Replace the number of the domain; starts after another boot are over."""
            numbers = {**_numbers(found, boot), uuid: number}
            record = msgspec.json.encode(_Record(boot, numbers)).decode()
            notes = {**found.metadata.annotations, STARTS: record}
            return with_fields(found, metadata=with_fields(found.metadata, annotations=notes))

        async with self._hypervisors.turn(host):
            written = await self._kube.modify(Hypervisor, host, changed)
            if written is None:
                raise TransientError(f"host {host} has no Hypervisor")
            self._hypervisors.wrote(written)


def _numbers(hypervisor: Hypervisor, boot: str) -> Mapping[str, str]:
    record = _decoded(hypervisor.metadata.annotations.get(STARTS, "{}"))
    return record.numbers if record.boot == boot else {}


@lru_cache(maxsize=64)
def _decoded(text: str) -> _Record:
    """Kept, since one evacuation looks at the record a dozen times."""
    try:
        return msgspec.json.decode(text, type=_Record)
    except msgspec.DecodeError:
        return _Record()
