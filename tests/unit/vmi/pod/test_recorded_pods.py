"""Our launcher pods are KubeVirt's, but for a table of differences with reasons."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.vmi.comparing import Difference, compare, pod_facts
from tests.unit.vmi.recordings import Recording, honoured, recordings
from tests.unit.vmi.reduced import reduced

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.quantity import Quantity
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.overhead import overhead_bytes
from hypercobalt.vmi.pod import launcher_pod

Json = Any
OVERHEAD = "kubevirt.io/memory-overhead-bytes"

DIFFERENCES = (
    Difference(
        r"/metadata/annotations/(pre|post)\.hook\.backup\.velero\.io/.*",
        "the pod has no virt-freezer: a backup freezes the guest by virt-api",
    ),
    Difference(
        r"/spec/containers\[compute\]/(command|args)\[\d+\]",
        "one process, our launcher, starts libvirt and is the pod's first process",
    ),
    Difference(
        r"/spec/initContainers\[guest-console-log\]/.*",
        "no container follows the serial console: no file keeps it",
    ),
    Difference(
        r"/spec/initContainers\[volume[a-z0-9-]+\]/.*",
        "no container is run for the digest of an image",
    ),
    Difference(
        r"/spec/volumes\[launcher-volume\]/.*",
        "holds the program that those containers run",
    ),
    Difference(
        r"/spec/volumes\[virt-bin-share-dir\]/.*",
        "takes that program where images are no volumes",
    ),
    Difference(
        r"/spec/(volumes|containers\[compute\]/volumeMounts)\[hotplug-disks\]/.*",
        "disks are not added to a running guest yet",
    ),
)

NOT_HONOURED = (
    Difference(r"/spec/initContainers\[.*", "containers of volumes that are not honoured"),
    Difference(r"/spec/containers\[virtiofs-.*", "filesystems"),
    Difference(r"/spec/containers\[compute\]/volumeDevices.*", "claims of block devices"),
    Difference(r"/spec/containers\[compute\]/(liveness|readiness)Probe/.*", "probes"),
    Difference(r"/spec/volumes\[.*", "volumes that are not honoured, and their helpers"),
    Difference(r"/spec/containers\[compute\]/volumeMounts\[.*", "where those are mounted"),
    Difference(r"/spec/(service|automountService)Account.*", "serviceAccountName and its volume"),
    Difference(r"/spec/(dnsConfig|dnsPolicy|topologySpreadConstraints).*", "fields of that name"),
    Difference(r"/spec/nodeSelector/kubevirt\.io/(cpumanager|realtime)", "dedicated CPUs"),
    Difference(r".*/resources/(requests|limits)/(cpu|hugepages-.*|vendor\.lab/card)", "those"),
    Difference(r".*/limits/devices\.kubevirt\.io/vhost-net", "bindings of other interfaces"),
    Difference(r"/metadata/annotations/k8s\.v1\.cni\.cncf\.io/networks", "Multus networks"),
)
"""Parts of a pod that fields which are not honoured decide."""
MEMORY = Difference(r".*/resources/(requests|limits)/memory", "hugepages, dedicated CPUs")


def made(vmi: VirtualMachineInstance, *, emulation: bool) -> Json:
    pod = to_builtins(launcher_pod(vmi, ClusterConfig(use_emulation=emulation)))
    assert (pod.pop("apiVersion"), pod.pop("kind")) == ("v1", "Pod")
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    assert metadata.pop("namespace") == vmi.metadata.namespace  # no part of the recorded ones
    return pod


def expected(one: Recording, vmi: VirtualMachineInstance, *, emulation: bool) -> Json:
    """The recorded pod with our overhead in place of KubeVirt's."""
    pod = json.loads(json.dumps(one.pod))
    resources = pod["spec"]["containers"][0]["resources"]
    if emulation:
        resources["limits"] = one.emulated_limits
    annotations, ours = pod["metadata"]["annotations"], overhead_bytes(vmi.spec.domain)
    less = ours - int(annotations[OVERHEAD])
    annotations[OVERHEAD] = str(ours)
    given = vmi.spec.domain.resources
    for member in ("requests", "limits"):
        amounts = resources.get(member, {})
        plain = member == "requests" and given.overcommitGuestOverhead
        if "memory" in amounts and not plain:
            amounts["memory"] = str(Quantity(amounts["memory"]) + Quantity(less))
    return pod


@pytest.mark.parametrize("emulation", [False, True], ids=["kvm", "emulation"])
def test_pods_of_honoured_vmis_are_the_recorded_ones(*, emulation: bool) -> None:
    compared = [one for one in honoured() if one.pod is not None]
    used: set[Difference] = set()
    faults: dict[str, list[str]] = {}
    for one in compared:
        vmi = one.typed
        recorded = pod_facts(expected(one, vmi, emulation=emulation))
        found = compare(recorded, pod_facts(made(vmi, emulation=emulation)), DIFFERENCES)
        used |= found.used
        faults |= {one.id: found.unexplained} if found.unexplained else {}
    equal = len(compared) - len(faults)
    print(f"launcher pods: {equal} of {len(compared)} as recorded")  # noqa: T201 - a rate
    assert faults == {}
    assert len(compared) == 62
    assert used == set(DIFFERENCES), "a line of the table explains nothing"


def test_honoured_parts_of_all_other_pods_are_the_recorded_ones() -> None:
    """Fields that are not honoured are taken out, and what they decide is not compared."""
    table = DIFFERENCES + NOT_HONOURED
    compared = 0
    faults: dict[str, list[str]] = {}
    for one in recordings():
        if one.pod is None:
            continue
        vmi = reduced(one)
        guest = json.dumps(one.vmi["spec"]["domain"])
        other = "hugepages" in guest or "dedicatedCpuPlacement" in guest
        lines = (*table, MEMORY) if other else table
        recorded = pod_facts(expected(one, vmi, emulation=False))
        found = compare(recorded, pod_facts(made(vmi, emulation=False)), lines)
        compared += 1
        faults |= {one.id: found.unexplained} if found.unexplained else {}
    print(f"parts of launcher pods: {compared - len(faults)} of {compared}")  # noqa: T201 - a rate
    assert faults == {}
    assert compared == 232
