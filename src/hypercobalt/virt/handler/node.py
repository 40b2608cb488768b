"""Keeps the labels of the handler's own Node, by which pods of guests are placed.

An annotation says where people reach the handler.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.api.core import Node
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.kubevirt.names import SCHEDULABLE
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Kube, Result
from hypercobalt.runtime.write_cache import Latest
from hypercobalt.virt.handler.node_labels import annotations_of, changes, labels_of

log = get_logger(__name__)

NAME: Final = "node"
UNKNOWN: Final = timedelta(minutes=1)
"""How often the capability cache is read while there is none: whoever runs pods makes it."""
_MOST: Final = 64
_LARGEST: Final = 4 * 1024**2  # bytes
_LAST: Final = 2.0  # seconds


class NodeReconciler:
    """Writes the labels that differ.

    Args:
        kube: writes as this handler.
        node: of the handler.
        capabilities: directory of libvirt's capability cache; None: not looked at.
        emulation: guests run without KVM.

    Attributes:
        endpoint: where people reach the handler; None while it is not known.
    """

    def __init__(
        self, kube: Kube, node: Latest[Node], capabilities: Path | None, *, emulation: bool
    ) -> None:
        self.endpoint: DiagnosticsEndpoint | None = None
        self._kube, self._node, self._capabilities = kube, node, capabilities
        self._emulation = emulation
        self._known: dict[str, str] = {}

    async def reconcile(self, key: str, /) -> Result:
        node = self._node.value
        if node is None or node.metadata.name != key:
            return Result()
        if self._capabilities is not None and not self._known:
            caches = await asyncio.to_thread(_read, self._capabilities)
            self._known = labels_of(caches, emulation=self._emulation)
        wanted = changes(node.metadata.labels, self._known)
        shown = annotations_of(node.metadata.annotations, self.endpoint)
        if wanted or shown:
            log.info("labelling_node", node=key, labels=len(wanted), annotations=len(shown))
            change: dict[str, object] = {"metadata": {"labels": wanted, "annotations": shown}}
            self._node.wrote(await self._kube.merge_patch(Node, key, change))
        if self._capabilities is None or self._known:
            return Result()
        log.warning("capabilities_unknown", directory=str(self._capabilities))
        return Result(UNKNOWN)

    async def leave(self) -> None:
        """Have no further guest placed on the node, as far as that is possible now."""
        node = self._node.value
        if node is None:
            return
        with suppress(HypercobaltError, TimeoutError):
            async with asyncio.timeout(_LAST):
                away: dict[str, object] = {"metadata": {"labels": {SCHEDULABLE: "false"}}}
                await self._kube.merge_patch(Node, node.metadata.name, away)


def _read(directory: Path) -> list[str]:
    found: list[str] = []
    for file in sorted(directory.glob("*.xml"))[:_MOST]:
        try:
            if not file.is_symlink() and file.stat().st_size <= _LARGEST:
                found.append(file.read_text())
        except (OSError, UnicodeDecodeError) as exc:
            log.warning("capabilities_not_read", file=str(file), error=str(exc))
    return found
