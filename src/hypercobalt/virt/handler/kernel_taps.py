"""The real `PodTaps`: connects each NIC of a VMI to its pod, and says what DHCP gives the guest.

A launcher and the fields of a VMI are hostile: no text of theirs becomes a part of a command.

Source: KubeVirt, pkg/network/setup (bindings), pkg/network/dhcp (what a guest is given).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from hypercobalt.adapters.network.addressing import local_mac
from hypercobalt.adapters.network.model import NetworkValueError
from hypercobalt.adapters.network.port import (
    ForwardedPort,
    GuestBinding,
    GuestNic,
    GuestNics,
    PortProtocol,
    WantedNic,
)
from hypercobalt.api.kubevirt.devices import InterfaceSpec
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.virt.handler.resolver import Resolver, pod_resolver
from hypercobalt.virt.wire.messages import DhcpOffer, TapDevice
from hypercobalt.vmi.domain.addresses import mac_address
from hypercobalt.vmi.pod import hostname
from hypercobalt.vmi.unfit import UnfitVMIError

_PROTOCOLS: Final = {"": PortProtocol.TCP, "TCP": PortProtocol.TCP, "UDP": PortProtocol.UDP}


class KernelTaps:
    """See `hypercobalt.virt.handler.taps.PodTaps`.

    Args:
        nics: of the guests of this node.
        owner: user id of launchers.
    """

    def __init__(self, nics: GuestNics, owner: int) -> None:
        self._nics, self._owner = nics, owner

    async def prepare(
        self, vmi: VirtualMachineInstance, pod: Pod | None, process: Path
    ) -> dict[str, TapDevice]:
        """Have a tap in the pod for each NIC of the VMI, and return them by network.

        Raises:
            UnfitVMIError: a NIC can never be connected.
            NetworkError: not now.
        """
        del pod  # what eth0 has is read from the pod's kernel
        names = [one.name for one in vmi.spec.domain.devices.interfaces]
        if not names:
            return {}
        if len(names) > 1:
            raise UnfitVMIError(f"{_path(1)}.name", "only one NIC can be on the pod network")
        wanted = wanted_nic(vmi, self._owner)
        nic = await self._nics.connect(process / "ns/net", wanted)
        resolver = await asyncio.to_thread(pod_resolver, process / "root")
        return {names[0]: tap_device(vmi, nic, resolver)}


def wanted_nic(vmi: VirtualMachineInstance, owner: int) -> WantedNic:
    """The connection that the first NIC of a VMI needs.

    Raises:
        UnfitVMIError: it is on no pod network, has no binding that is honoured, or a port that
            cannot be.
    """
    interface = vmi.spec.domain.devices.interfaces[0]
    pods = {network.name for network in vmi.spec.networks if network.pod is not None}
    if interface.name not in pods:
        raise UnfitVMIError(f"{_path(0)}.name", f"{interface.name[:64]!r} is no pod network")
    if interface.masquerade is not None:
        return WantedNic(binding=GuestBinding.MASQUERADE, owner=owner, ports=_ports(interface))
    if interface.bridge is not None:
        return WantedNic(binding=GuestBinding.BRIDGE, owner=owner)
    raise UnfitVMIError(_path(0), "has neither masquerade nor bridge")


def tap_device(vmi: VirtualMachineInstance, nic: GuestNic, resolver: Resolver) -> TapDevice:
    """What the launcher is given: the tap, and what its guest is given.

    The MAC address is the VMI's, or the pod's where the guest has the pod's address, or one that
    follows from the VMI's UID.

    Raises:
        UnfitVMIError: the VMI's MAC address is none.
    """
    interface = vmi.spec.domain.devices.interfaces[0]
    own = interface.macAddress and mac_address(interface.macAddress, f"{_path(0)}.macAddress")
    made = local_mac(f"{vmi.metadata.uid} {interface.name}")
    offer = DhcpOffer(
        bridge=nic.bridge,
        address=str(nic.address),
        server=str(nic.server),
        gateway=str(nic.gateway) if nic.gateway else "",
        dns=resolver.servers,
        host_name=hostname(vmi),
        domain=_domain(vmi.spec.subdomain, resolver.domain),
        routes=tuple((str(to), str(by)) for to, by in nic.routes),
    )
    return TapDevice(nic.tap, (own or nic.mac or made).lower(), nic.mtu, offer)


def _domain(subdomain: str, domain: str) -> str:
    if not subdomain or not domain or domain.startswith(f"{subdomain}."):
        return domain
    return f"{subdomain}.{domain}"


def _ports(interface: InterfaceSpec) -> tuple[ForwardedPort, ...]:
    made: list[ForwardedPort] = []
    for number, port in enumerate(interface.ports):
        path = f"{_path(0)}.ports[{number}]"
        protocol = _PROTOCOLS.get(port.protocol.upper())
        if protocol is None:
            raise UnfitVMIError(
                f"{path}.protocol", f"{port.protocol[:64]!r} is neither TCP nor UDP"
            )
        try:
            made.append(ForwardedPort(port.port, protocol))
        except NetworkValueError as error:
            raise UnfitVMIError(f"{path}.port", str(error)) from error
    return tuple(made)


def _path(number: int) -> str:
    return f"spec.domain.devices.interfaces[{number}]"
