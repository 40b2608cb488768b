"""The unit of a pod: our command, its bounds, and what it sees."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace
from tests.unit.lab.pods.running.objects import SETTINGS, UID, VMI_UID, launcher_pod

from hypercobalt.adapters.host.transient_model import TransientUnit
from hypercobalt.api.pods import ResourceRequirements
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.workloads import Pod
from hypercobalt.lab.pods.running.directories import PodDirectories
from hypercobalt.lab.pods.running.launch import Launch, launch_of
from hypercobalt.lab.pods.running.unit import pod_unit, uid_of, unit_name

PODS = Path("/var/lib/kubelet/pods")
EMPTY = f"{PODS}/{UID}/volumes/kubernetes.io~empty-dir"


def unit(pod: Pod) -> TransientUnit:
    launch = launch_of(pod)
    assert isinstance(launch, Launch)
    directories = PodDirectories(PODS.parent, Path("/images"))
    return pod_unit(launch, directories, SETTINGS, Path("/run/netns/pod"))


def binds(made: TransientUnit) -> list[tuple[str, str, str]]:
    words = list(made.command)
    start = words.index("pod") + 5
    count = int(words[start - 1])
    return [(words[at], words[at + 1], words[at + 2]) for at in range(start, start + 3 * count, 3)]


def test_command_is_the_launcher_with_what_it_may_know() -> None:
    made = unit(launcher_pod(grace=60))
    assert made.command[-3:-1] == ("-m", "hypercobalt.virt.launcher")
    settings = json.loads(made.command[-1])
    assert (settings["namespace"], settings["name"], settings["uid"]) == ("lab", "guest", VMI_UID)
    assert settings["grace_seconds"] == 45


def test_pod_sees_images_read_only_and_its_own_volumes() -> None:
    found = binds(unit(launcher_pod()))
    assert ("ro", "/code", "/code") in found
    assert ("ro", "/images/linux", "/var/run/kubevirt-image-volume/disk_0") in found
    assert ("rw", f"{EMPTY}/sockets", "/var/run/kubevirt/sockets") in found
    assert {mode for mode, source, _ in found if not source.startswith(EMPTY)} == {"ro"}


def test_pod_has_the_time_of_grace_and_a_namespace_of_its_own() -> None:
    made = unit(launcher_pod(grace=60))
    assert made.settings["TimeoutStopUSec"] == timedelta(seconds=62) // timedelta(microseconds=1)
    assert made.settings["NetworkNamespacePath"] == "/run/netns/pod"
    assert made.settings["KillMode"] == "mixed"


def test_shutdown_of_the_host_ends_a_pod_before_what_serves_it() -> None:
    served = ("hypercobalt-virt-handler.service", "hypercobalt-pods.service")
    assert unit(launcher_pod()).settings["After"] == served


def test_limits_bound_the_unit_and_their_absence_does_not() -> None:
    pod = launcher_pod()
    (compute,) = pod.spec.containers
    given = ResourceRequirements(limits={"memory": Quantity("64Mi"), "cpu": Quantity(2)})
    limited = replace(pod.spec, containers=(replace(compute, resources=given),))
    bounded = unit(replace(pod, spec=limited)).settings
    assert (bounded["MemoryMax"], bounded["CPUQuotaPerSecUSec"]) == (64 * 2**20, 2_000_000)
    assert not {"MemoryMax", "CPUQuotaPerSecUSec"} & set(unit(pod).settings)
    assert "TasksMax" in unit(pod).settings


def test_name_of_a_unit_leads_to_its_pod() -> None:
    assert uid_of(unit_name(UID)) == UID
