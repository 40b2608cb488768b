"""The launcher pod of a VirtualMachineInstance.

One container, which starts libvirt and the guest. KubeVirt's further containers are not here: one
that follows the guest's log, and one for each image, which runs it for the image's digest.

Source: kubevirt, pkg/virt-controller/services/template.go, as recorded in
`tests/unit/vmi/recorded/`. Differences have a line and a reason there.
"""

from __future__ import annotations

from typing import Final

import msgspec

from hypercobalt.api.kubevirt import names
from hypercobalt.api.kubevirt.spec import VMISpec
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.pods import (
    Capabilities,
    ContainerPort,
    EnvVarSource,
    ObjectFieldSelector,
    PodReadinessGate,
    PodSecurityContext,
    SecurityContext,
)
from hypercobalt.api.workloads import Container, EnvVar, Pod, PodSpec
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.grace import (
    LONGEST_GRACE_SECONDS,
    grace_period,
    launcher_grace,
    pod_grace,
)
from hypercobalt.vmi.paths import PodPaths
from hypercobalt.vmi.pod.metadata import hostname, pod_meta
from hypercobalt.vmi.pod.placing import affinity, node_selector
from hypercobalt.vmi.pod.resources import resources
from hypercobalt.vmi.pod.volumes import mounts, pull_secrets, volumes
from hypercobalt.vmi.unfit import UnfitVMIError

_PATHS: Final = PodPaths()
_ENVIRONMENT: Final = (
    # Where a session of libvirt keeps configuration, caches and sockets.
    EnvVar(name="XDG_CACHE_HOME", value=_PATHS.private),
    EnvVar(name="XDG_CONFIG_HOME", value=_PATHS.private),
    EnvVar(name="XDG_RUNTIME_DIR", value="/var/run"),
    EnvVar(
        name="POD_NAME",
        valueFrom=EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath="metadata.name")),
    ),
)


def launcher_pod(vmi: VirtualMachineInstance, cluster: ClusterConfig) -> Pod:
    """Make the pod that virt-controller creates for a VMI.

    Args:
        vmi: defaulted and admitted.
        cluster: settings of the cluster.

    Raises:
        UnfitVMIError: the VMI asks for what is not honoured or cannot be.
    """
    return Pod(metadata=pod_meta(vmi), spec=_spec(vmi, cluster))


def _spec(vmi: VirtualMachineInstance, cluster: ClusterConfig) -> PodSpec:
    spec, user = vmi.spec, names.LAUNCHER_USER
    return PodSpec(
        nodeSelector=node_selector(spec),
        affinity=affinity(spec),
        tolerations=spec.tolerations,
        priorityClassName=spec.priorityClassName,
        schedulerName=spec.schedulerName,
        hostname=hostname(vmi),
        subdomain=spec.subdomain,
        automountServiceAccountToken=False,
        enableServiceLinks=False,
        restartPolicy="Never",
        readinessGates=(PodReadinessGate(conditionType=names.UNPAUSED_GATE),),
        terminationGracePeriodSeconds=_seconds(spec, of_pod=True),
        securityContext=PodSecurityContext(
            runAsUser=user, runAsGroup=user, runAsNonRoot=True, fsGroup=user
        ),
        imagePullSecrets=pull_secrets(spec),
        volumes=volumes(spec),
        containers=(_compute(vmi, cluster),),
    )


def _compute(vmi: VirtualMachineInstance, cluster: ClusterConfig) -> Container:
    return Container(
        name=names.COMPUTE_CONTAINER,
        image=cluster.launcher_image,
        imagePullPolicy="IfNotPresent",
        command=("python3", "-m", names.LAUNCHER_MODULE, _settings(vmi)),
        env=_ENVIRONMENT,
        ports=_ports(vmi.spec),
        resources=resources(vmi.spec.domain, cluster),
        volumeMounts=mounts(vmi.spec),
        terminationMessagePolicy="FallbackToLogsOnError",
        securityContext=SecurityContext(
            allowPrivilegeEscalation=False,
            # The launcher answers the guest's DHCP, at port 67.
            capabilities=Capabilities(add=("NET_BIND_SERVICE",), drop=("ALL",)),
            runAsUser=names.LAUNCHER_USER,
            runAsGroup=names.LAUNCHER_USER,
            runAsNonRoot=True,
        ),
    )


def _settings(vmi: VirtualMachineInstance) -> str:
    """The argument of the launcher's process, as `virt/launcher` reads it; it holds no secret."""
    meta = vmi.metadata
    settings = {
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "grace_seconds": _seconds(vmi.spec, of_pod=False),
    }
    return msgspec.json.encode(settings).decode()


def _seconds(spec: VMISpec, *, of_pod: bool) -> int:
    """How long pod or launcher may take to end, in seconds."""
    given = spec.terminationGracePeriodSeconds
    if given is not None and not 0 <= given <= LONGEST_GRACE_SECONDS:
        field = "spec.terminationGracePeriodSeconds"
        raise UnfitVMIError(field, f"{given} is not from 0 to {LONGEST_GRACE_SECONDS}")
    grace = grace_period(given)
    return int((pod_grace(grace) if of_pod else launcher_grace(grace)).total_seconds())


def _ports(spec: VMISpec) -> tuple[ContainerPort, ...]:
    return tuple(
        ContainerPort(containerPort=port.port, protocol=port.protocol or "TCP", name=port.name)
        for nic in spec.domain.devices.interfaces
        for port in nic.ports
    )
