"""What runs the pods of a host, installed in it: a systemd service with a kubelet's identity.

Source: systemd.service(5).
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.api.core import Node
from hypercobalt.api.kubevirt.names import LAUNCHER_USER
from hypercobalt.lab import kubelet, services
from hypercobalt.lab.binds import needed_binds
from hypercobalt.lab.control import ControlPlane
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import Host
from hypercobalt.lab.pods import rights
from hypercobalt.lab.pods.running.enter import Bind, pod_command
from hypercobalt.lab.pods.running.settings import (
    CAPABILITIES,
    IMAGES,
    SERVICE,
    RunningSettings,
    encode_settings,
)

PODS: Final = 60
"""How many pods a host can have: it has one address more, its own."""
_WARM: Final = "hypercobalt.virt.launcher.warm"
_MADE: Final = "/var/run/capabilities"
_FINDING: Final = timedelta(seconds=90)  # one on an idle machine
_ACCOUNTS: Final = "/etc/passwd"
_UID_FIELD: Final = 2
_UNIT: Final = """\
[Unit]
Description=runs the launcher pods of this host, for the kubelet that the lab does not run
After=dbus.service network.target
StartLimitIntervalSec=0

[Service]
ExecStart={python} -m hypercobalt.lab.pods.running '{settings}'
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


def unit(host: Host, server: str) -> str:
    """The unit file of what runs a host's pods.

    Args:
        host: which.
        server: URL of the API server.
    """
    settings = RunningSettings(
        node=host.name,
        address=host.address,
        server=server,
        network=str(host.pod_network),
        credentials=kubelet.CREDENTIALS,
        programs=tuple(map(str, needed_binds())),
    )
    text = encode_settings(settings).replace("\\", "\\\\").replace("%", "%%").replace("'", "\\x27")
    return _UNIT.format(python=sys.executable, settings=text)


def without_account(passwd: str, uid: int) -> tuple[str, str]:
    """The accounts of a host but for the one with a user ID, and the name of that one.

    Args:
        passwd: content of /etc/passwd.
        uid: the user ID.

    Returns:
        The content without the account; its name, "" if there was none.
    """
    lines = [line.split(":") for line in passwd.splitlines()]
    found = [line[0] for line in lines if line[_UID_FIELD : _UID_FIELD + 1] == [str(uid)]]
    kept = [line for line in lines if line[0] not in found]
    return "".join(":".join(line) + "\n" for line in kept), ", ".join(found)


async def install(host: Host, control: ControlPlane) -> None:
    """Write the files of what runs a host's pods, and start it; one that runs is left alone.

    Its Node is registered and its kubelet's credentials are there.

    Raises:
        LabError: the host is off, a process of it has the user ID of launchers, or the unit does
            not start.
        HypercobaltError: the API server refuses.
    """
    async with control.client() as kube:
        node = await kube.get(Node, host.name)
        if node is None:
            raise LabError(f"Node {host.name} is not there; register the host first")
        for obj in rights.of_kubelet(node):
            await kube.apply(obj, force=True)
    await _free_account(host)
    await host.run("mkdir", "-p", IMAGES, CAPABILITIES)
    await _find_capabilities(host)
    await services.install(host, {SERVICE: unit(host, control.url)})


async def _free_account(host: Host) -> None:
    """Take the launchers' user ID from an account that the host has from the machine's packages.

    Services of the machine do not run in its hosts, so their accounts are not used there.
    """
    kept, name = without_account(await host.run("cat", _ACCOUNTS), LAUNCHER_USER)
    if not name:
        return
    used = await host.run("sh", "-c", f"pgrep -u {LAUNCHER_USER} || :")
    if used.strip():
        raise LabError(f"host {host.name}: account {name} has user ID {LAUNCHER_USER}, in use")
    host.disk.write(_ACCOUNTS, kept)


async def _find_capabilities(host: Host) -> None:
    """Have a launcher's libvirtd find out what QEMU can do, once, for all pods of the host.

    It runs as a pod does, in a network of its own, for the result to hold there.
    """
    if (await host.run("ls", CAPABILITIES)).strip():
        return
    made, root = f"{CAPABILITIES}.new", f"{CAPABILITIES}.root"
    await host.run("mkdir", "-p", made, root)
    await host.run("chown", str(LAUNCHER_USER), made)
    programs = (Bind(path, str(path)) for path in needed_binds())
    command = pod_command(
        (sys.executable, "-m", _WARM, _MADE),
        root=Path(root),
        hostname=host.name,
        devices=(),
        binds=(*programs, Bind(Path(made), _MADE, writable=True)),
    )
    await host.run("unshare", "--net", "--", *command, within=_FINDING)
    await host.run("cp", "--preserve=timestamps", "-rT", made, CAPABILITIES)
    await host.run("rm", "-r", made, root)
