"""The VMs' network: one OVN logical switch, a port for each VM.

The northbound database is the only record of who has which address. A port moves with its VM: while
a live migration runs it is bound to both hosts, and the new one forwards from the guest's first
frame there, so that hardly a packet is lost.

Source: ovn-nb(5), Logical_Switch_Port, `requested-chassis` and `activation-strategy`, as Neutron's
OVN driver uses them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.ovn import Central

SWITCH = "vms"
NETWORK = ipaddress.IPv4Network("10.78.0.0/24")
_FIRST, _LAST = 10, 250
_NAME = "vm"  # external id of a port: whose it is


@dataclass(frozen=True, slots=True)
class Address:
    """Where a VM is found on the switch."""

    ip: ipaddress.IPv4Address

    @property
    def mac(self) -> str:
        """MAC from the IP address, locally administered: no two VMs have the same."""
        return "52:54:" + ":".join(f"{byte:02x}" for byte in self.ip.packed)

    @property
    def with_prefix(self) -> str:
        """Address as `ip address add` takes it."""
        return f"{self.ip}/{NETWORK.prefixlen}"

    @property
    def ovn(self) -> str:
        """MAC and IP address as a logical port has them."""
        return f"{self.mac} {self.ip}"


def free_address(taken: Iterable[str]) -> Address:
    """The lowest free address of the network.

    Args:
        taken: addresses of logical ports, `MAC IP` each.

    Raises:
        LabError: all are taken.
    """
    used = set(taken)
    for number in range(_FIRST, _LAST + 1):
        address = Address(NETWORK[number])
        if address.ovn not in used:
            return address
    raise LabError(f"switch {SWITCH}: all addresses of {NETWORK} are taken; remove a VM")


class Switch:
    """The logical switch in a lab's northbound database."""

    def __init__(self, central: Central) -> None:
        self._central = central
        self._taking = asyncio.Lock()  # between reading the free addresses and taking one

    async def attach(self, name: str, port: uuid.UUID) -> Address:
        """Make the port of a VM with an address of its own; an older one of that id is replaced.

        Raises:
            LabError: no address is free, or the database refuses.
        """
        async with self._taking:
            listed = await self._central.nbctl(
                *("--bare", "--", "--may-exist", "ls-add", SWITCH),
                *("--", "--if-exists", "lsp-del", str(port)),
                *("--", "--columns=addresses", "list", "Logical_Switch_Port"),
            )
            address = free_address(line.strip() for line in listed.splitlines())
            await self._central.nbctl(
                *("lsp-add", SWITCH, str(port)),
                *("--", "lsp-set-addresses", str(port), address.ovn),
                *("--", "set", "Logical_Switch_Port", str(port), f"external_ids:{_NAME}={name}"),
            )
        return address

    async def detach(self, port: uuid.UUID) -> None:
        """Remove the port of a VM, if there is one.

        Raises:
            CommandError: the database refuses.
        """
        await self._central.nbctl("--if-exists", "lsp-del", str(port))

    async def has(self, port: uuid.UUID) -> bool:
        """Whether there is such a port.

        Raises:
            CommandError: the database does not answer.
        """
        query = ("--bare", "--columns=name", "find", "Logical_Switch_Port", f"name={port}")
        return bool((await self._central.nbctl(*query)).strip())

    async def bind(self, port: uuid.UUID, *hosts: str) -> None:
        """Set which hosts may have the port: the one it is on, then the one it moves to.

        Raises:
            CommandError: there is no such port, or the database refuses.
        """
        options = [f"requested-chassis={','.join(hosts)}"]
        if len(hosts) > 1:
            options.append("activation-strategy=rarp")
        await self._central.nbctl("lsp-set-options", str(port), *options)
