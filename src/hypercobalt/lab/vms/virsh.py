"""The libvirt of a host, by its own command line in that host."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from hypercobalt.lab.commands import DEADLINE
from hypercobalt.lab.errors import CommandError, LabError
from hypercobalt.lab.host import Host, HostPower
from hypercobalt.lab.vms.request import ListedVm, parse_list

_GONE = "Domain not found"
_LISTINGS = 20  # one in five fails while domains are defined and undefined without a pause
_URI = "qemu:///system"
_DOCUMENTS = "etc/libvirt/qemu"  # where libvirt keeps them, `NAME.xml` each
_MOVE = timedelta(minutes=30)
# Files go when the domain is gone for sure.
_REMOVE = """
virsh -q destroy "$0" 2>/dev/null
virsh -q undefine "$0" --managed-save 2>/dev/null
names=$(virsh -q list --all --name) || exit
! printf %s "$names" | grep -qxF -e "$0" || exit
rm -f "$@"
"""


async def virsh(
    host: Host, *arguments: str, stdin: str | None = None, within: timedelta = DEADLINE
) -> str:
    """Run a command of virsh and return its output.

    Raises:
        LabError: the host is off, or libvirt refuses.
    """
    return await host.run("virsh", "-q", "-c", _URI, *arguments, stdin=stdin, within=within)


async def listed(host: Host) -> tuple[ListedVm, ...] | str:
    """The VMs of a host, or why they cannot be listed.

    virsh reads the titles one by one, and fails when a domain is undefined meanwhile.
    """
    if host.power is not HostPower.RUNNING:
        return str(host.power)
    failure = ""
    for _ in range(_LISTINGS):
        try:
            return parse_list(host.name, await virsh(host, "list", "--all", "--title"))
        except LabError as exc:
            failure = str(exc)
            if not isinstance(exc, CommandError) or _GONE not in exc.output:
                break
    return failure


def defined(host: Host) -> set[str]:
    """The names of a host's VMs, running or not, as they are on its disk; the host may be off."""
    return {document.stem for document in (host.disk.root / _DOCUMENTS).glob("*.xml")}


async def remove(host: Host, name: str, *files: str) -> None:
    """Cut a VM's power, forget it, and delete its files; none may be there.

    Raises:
        LabError: the host is off, or libvirt keeps the VM.
    """
    await host.run("sh", "-c", _REMOVE, name, *files)


async def migrate(source: Host, name: str, target: str, flags: Sequence[str]) -> None:
    """Migrate a VM, and wait for the end; when we are cancelled, so is the migration.

    Raises:
        LabError: libvirt gives up; the VM runs on where it was.
    """
    try:
        await virsh(source, "migrate", *flags, name, f"qemu+tcp://{target}/system", within=_MOVE)
    except asyncio.CancelledError:
        # libvirt continues without the client that requested it.
        abort = source.run("sh", "-c", 'virsh -q domjobabort "$0" || :', name)
        await asyncio.shield(abort)
        raise


async def runs(host: Host, name: str) -> bool:
    """Whether a domain runs: one that is being started does not yet.

    Raises:
        CommandError: the host has no such domain.
    """
    return (await virsh(host, "domstate", name)).strip() == "running"


async def begins(host: Host, name: str) -> bool:
    """Whether a domain is being started.

    Raises:
        CommandError: the host has no such domain.
    """
    state = await virsh(host, "domstate", "--reason", name)
    return state.strip() == "paused (starting up)"
