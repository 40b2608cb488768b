"""Observe what the machine can do.

Nothing is changed: what has to be tried is tried in namespaces that end with the trial.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

from hypercobalt.lab import cgroups, mounts
from hypercobalt.lab.commands import execute
from hypercobalt.lab.errors import CommandError
from hypercobalt.lab.machine.preflight import PACKAGES, Machine

_CAPABILITIES = 1 << 12 | 1 << 21  # NET_ADMIN, SYS_ADMIN
_TRIAL = timedelta(seconds=10)
_OVERLAY = """
mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work" "$1/root" &&
mount -t overlay none -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
"""
_NETWORK = "ip link add trial0 type bridge && ip link add trial1 type veth peer name trial2"


async def observe(data: Path) -> Machine:
    """Look at the machine.

    Args:
        data: where the lab would lie.
    """
    root = is_root()
    packages, drops, overlay, net = await asyncio.gather(
        _packages(),
        _drops_forwarded(),
        _try_overlay() if root else _unknown(),
        _try_network() if root else _unknown(),
    )
    return _machine(root, packages, overlay, net, data, drops=drops)


def _machine(
    root: bool, packages: frozenset[str], overlay: str, net: str, data: Path, *, drops: bool
) -> Machine:
    return Machine(
        root=root,
        debian=shutil.which("apt-get") is not None,
        packages=packages,
        overlay=overlay,
        network=net,
        cgroups=cgroups.writable(),
        fuse=Path("/dev/fuse").exists(),
        kvm=os.access("/dev/kvm", os.R_OK | os.W_OK),
        tun=Path("/dev/net/tun").exists(),
        bridge_filter=drops and _is_on(Path("/proc/sys/net/bridge/bridge-nf-call-iptables")),
        memory_bytes=available_bytes(),
        disk_bytes=shutil.disk_usage(_existing(data.absolute())).free,
        mounts=frozenset(str(point) for point in mounts.under(Path("/"))),
    )


def is_root() -> bool:
    """Whether we are root with the rights that hosts need; a container may hold some back."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return os.geteuid() == 0 and int(effective, 16) & _CAPABILITIES == _CAPABILITIES


async def _unknown() -> str:
    return ""


async def _packages() -> frozenset[str]:
    form = r"${Package} ${db:Status-Status}\n"
    try:
        done = await execute(("dpkg-query", "--show", f"--showformat={form}", *PACKAGES))
    except CommandError:
        return frozenset()  # not Debian
    lines = (line.split() for line in done.stdout.splitlines())
    return frozenset(line[0] for line in lines if line[1:] == ["installed"])


async def _drops_forwarded() -> bool:
    try:
        done = await execute(("iptables", "-S", "FORWARD"), within=_TRIAL)
    except CommandError:
        return False
    return "-P FORWARD DROP" in done.stdout


async def _try_overlay() -> str:
    with tempfile.TemporaryDirectory() as folder:
        return await _try("--mount", _OVERLAY, folder)


async def _try_network() -> str:
    return await _try("--net", _NETWORK)


async def _try(namespace: str, script: str, *arguments: str) -> str:
    try:
        argv = ("unshare", namespace, "/bin/sh", "-c", script, "trial", *arguments)
        done = await execute(argv, within=_TRIAL)
    except CommandError as exc:
        return str(exc)
    return (done.stderr.strip() or f"code {done.code}") if done.code else ""


def _is_on(setting: Path) -> bool:
    return setting.exists() and setting.read_text(encoding="ascii").strip() != "0"


def available_bytes() -> int:
    """The memory that the machine could still give away."""
    meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
    line = next(line for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * 1024


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
