"""The systemd unit of a pod. Pure.

Its first process waits for the pod's first process, and takes no SIGTERM: a command passes that to
the pod's first process alone, so that QEMU goes on until virt-handler has ended the guest. A pod is
ended by a reload, which runs the command: a unit that systemd stops is forgotten once it has ended
well, and who removes the pod may be killed before the end is reported. The stop command is the same
one, for when the host shuts down.

Source: systemd.service(5), systemd.kill(5); measured in docs/decisions/0079.
"""

from __future__ import annotations

import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.adapters.host.pods import LAB_PREFIX
from hypercobalt.adapters.host.transient_model import Setting, TransientUnit
from hypercobalt.api.kubevirt.names import LAUNCHER_MODULE
from hypercobalt.lab.pods.running.bounds import TASKS, PodBounds
from hypercobalt.lab.pods.running.directories import PodDirectories
from hypercobalt.lab.pods.running.enter import Bind, pod_command
from hypercobalt.lab.pods.running.launch import Launch
from hypercobalt.lab.pods.running.settings import HANDLER, SERVICE, RunningSettings
from hypercobalt.virt.launcher.settings import LauncherSettings
from hypercobalt.virt.launcher.settings import encode_settings as encode_launcher

PREFIX: Final = LAB_PREFIX
"""What the names of pods' units begin with; their UID follows."""
_SUFFIX: Final = ".service"
_TERMINATE: Final = ("/bin/sh", "-c", 'pkill -TERM -P "$$1" || :', "stop", "$MAINPID")
_AFTER_LAUNCHER: Final = timedelta(seconds=15)
"""How much sooner than the pod the launcher gives its guest up: G+15 of G+30."""
_SPARE: Final = timedelta(seconds=2)
_MICROSECOND: Final = timedelta(microseconds=1)


def unit_name(uid: str) -> str:
    """Name of a pod's unit."""
    return f"{PREFIX}{uid}{_SUFFIX}"


def uid_of(unit: str) -> str:
    """UID of the pod whose unit has this name."""
    return unit.removeprefix(PREFIX).removesuffix(_SUFFIX)


def pod_unit(
    launch: Launch, directories: PodDirectories, settings: RunningSettings, namespace: Path
) -> TransientUnit:
    """The unit of a pod.

    Args:
        launch: what runs.
        directories: of pods and images.
        settings: of this host.
        namespace: file of the pod's network namespace.
    """
    volumes = (
        Bind(directories.source(launch.uid, mount), mount.path, writable=not mount.image)
        for mount in launch.mounts
    )
    binds = (*_programs(settings), *volumes)
    launcher = LauncherSettings(
        namespace=launch.namespace,
        name=launch.vmi,
        uid=launch.vmi_uid,
        grace_seconds=max(launch.grace - _AFTER_LAUNCHER, timedelta()).total_seconds(),
        cache=settings.capabilities,
    )
    command = pod_command(
        (sys.executable, "-m", LAUNCHER_MODULE, encode_launcher(launcher)),
        root=directories.root(launch.uid),
        hostname=launch.hostname,
        devices=launch.devices,
        binds=binds,
    )
    return TransientUnit(
        name=unit_name(launch.uid),
        command=command,
        stop_command=_TERMINATE,
        reload_command=_TERMINATE,
        settings={
            "Description": f"launcher pod of {launch.namespace}/{launch.vmi}",
            # When the host shuts down, each guest is ended and reported before who does that.
            "After": (HANDLER, SERVICE),
            "NetworkNamespacePath": str(namespace),
            "KillMode": "mixed",
            # The first process takes it for nothing; the stop command has told the pod.
            "KillSignal": int(signal.SIGCONT),
            "TimeoutStopUSec": (launch.grace + _SPARE) // _MICROSECOND,
            **_bounded(launch.bounds),
        },
    )


def _programs(settings: RunningSettings) -> tuple[Bind, ...]:
    seen = (*settings.programs, settings.capabilities)
    return tuple(Bind(Path(path), path) for path in seen)


def _bounded(bounds: PodBounds) -> dict[str, Setting]:
    found: dict[str, Setting] = {"TasksMax": TASKS, "CPUShares": bounds.cpu_shares}
    if bounds.memory_bytes is not None:
        found["MemoryMax"] = bounds.memory_bytes
    if bounds.cpu_us is not None:
        found["CPUQuotaPerSecUSec"] = bounds.cpu_us
    return found
