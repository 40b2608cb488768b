"""The real `GuestNics`: bridge, tap and rules within a pod's network namespace.

All of it is in the namespace, and is gone with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hypercobalt.adapters.network import bridging, masquerade
from hypercobalt.adapters.network.changes import link_changes
from hypercobalt.adapters.network.commands import change_ip, change_rules, set_kernel
from hypercobalt.adapters.network.model import NetworkError
from hypercobalt.adapters.network.namespaces import held_namespace
from hypercobalt.adapters.network.port import GuestBinding, GuestNic, WantedNic
from hypercobalt.adapters.network.reading import read_links, read_routes

_OWN: Final = Path("/proc/self/ns/net")


class KernelGuestNics:
    """See `hypercobalt.adapters.network.port.GuestNics`."""

    async def connect(self, namespace: Path, wanted: WantedNic) -> GuestNic:
        with held_namespace(namespace) as held:
            if held.stat().st_ino == _OWN.stat().st_ino:
                # Its process has ended, and one of the host has the number now.
                raise NetworkError(f"network namespace {namespace}: is this host's own, no pod's")
            match wanted.binding:
                case GuestBinding.MASQUERADE:
                    return await _masquerade(held, wanted)
                case GuestBinding.BRIDGE:
                    return await _bridge(held, wanted)


async def _masquerade(namespace: Path, wanted: WantedNic) -> GuestNic:
    found = await read_links(namespace)
    links = masquerade.wanted_links(found, wanted)
    # First: nothing of the guest passes without them.
    await change_rules(namespace, masquerade.ruleset(wanted.ports))
    await change_ip(namespace, link_changes(found, links))
    await set_kernel(namespace, masquerade.SETTINGS)
    return masquerade.nic(found)


async def _bridge(namespace: Path, wanted: WantedNic) -> GuestNic:
    found = await read_links(namespace)
    pod = bridging.identity(found, await read_routes(namespace))
    await set_kernel(namespace, bridging.SETTINGS)
    await change_ip(namespace, bridging.changes(found, pod, wanted))
    await set_kernel(namespace, bridging.SETTINGS)  # of links that are there only now
    return bridging.guest_nic(pod)
