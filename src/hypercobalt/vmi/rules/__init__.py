"""What KubeVirt refuses, by subject; each rule yields the causes it finds.

The numbers of the reference's rules are not repeated: each module states its own. Paths that look
wrong are KubeVirt's, kept because clients compare them.

Source: kubevirt, pkg/virt-api/webhooks, as observed (KubeVirt v1.8).
"""

from __future__ import annotations

from collections.abc import Iterator

from hypercobalt.api.kubevirt import names
from hypercobalt.vmi.accounts import Account
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules import (
    affinity,
    arm64,
    credentials,
    devices,
    disks,
    guest,
    machine,
    networks,
    passthrough,
    placement,
    probes,
    volumes,
)
from hypercobalt.vmi.rules.causes import invalid, unsupported


def causes_of_create(
    obj: At, account: Account | None, cluster: ClusterConfig
) -> Iterator[FieldCause]:
    """Why a new object is refused."""
    yield from _metadata(obj["metadata"], account, cluster)
    yield from causes_of_spec(obj["spec"], cluster)


def _metadata(meta: At, account: Account | None, cluster: ClusterConfig) -> Iterator[FieldCause]:
    if account is None and names.RESERVED_LABELS & set(meta["labels"].members):
        yield unsupported(meta["labels"], "must not have labels that KubeVirt writes")
    for name, gate in (
        (names.HOOK_SIDECARS, "Sidecar"),
        (names.IGNITION, "ExperimentalIgnitionSupport"),
    ):
        value = meta["annotations"].members.get(name)
        if value and gate not in cluster.feature_gates:
            yield invalid(meta["annotations"], f"must not have {name} without gate {gate}")


def causes_of_spec(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Why the spec of a new object is refused by KubeVirt's rules."""
    domain = spec["domain"]
    yield from placement.names(spec)
    yield from guest.memory(domain)
    yield from guest.cpu(domain)
    yield from placement.strategies(spec)
    yield from networks.networks(spec, cluster)
    yield from networks.interfaces(spec, cluster)
    yield from disks.disks(spec, cluster)
    yield from disks.boot_order(domain["devices"])
    yield from volumes.volumes(spec, cluster)
    yield from machine.machine(spec, cluster)
    yield from machine.firmware(domain)
    yield from machine.tables(spec)
    yield from machine.features(domain)
    yield from machine.threads(domain)
    yield from machine.security(spec, cluster)
    yield from arm64.arm64(spec)
    yield from devices.devices(spec, cluster)
    yield from passthrough.passthrough(spec, cluster)
    yield from probes.probes(spec)
    yield from credentials.credentials(spec)
    yield from placement.resolver(spec)
    yield from affinity.affinity(spec)
    yield from affinity.spreading(spec)
    yield from placement.claims(spec)
    yield from placement.utility_volumes(spec)
