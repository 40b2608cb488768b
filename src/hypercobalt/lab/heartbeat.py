"""A host's Node as its kubelet reports it: the Lease each few seconds, the status when it changes.

    python -m hypercobalt.lab.heartbeat --server URL --credentials DIR --node NAME …

Stands in for the kubelet, which the lab's hosts do not run: what freezes, cuts off or kills a host
silences its Node, too. It runs in every host, so it is small: blocking calls of the standard
library take half the memory of this project's client.

Source: kubernetes pkg/kubelet/nodestatus/setters.go and pkg/kubelet/kubelet_node_status.go;
component-helpers apimachinery/lease/controller.go.
"""

from __future__ import annotations

import argparse
import http.client
import os
import ssl
import sys
import time
import urllib.parse
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from hypercobalt.api import codec
from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.core import Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.times import micro_time
from hypercobalt.errors import HypercobaltError

LEASE_NAMESPACE: Final = "kube-node-lease"
INTERVAL_SECONDS: Final = 10.0  # of a kubelet's renewals
LEASE_SECONDS: Final = 40
MANAGER: Final = "kubelet"
CA, CERTIFICATE, KEY = "ca.crt", "client.crt", "client.key"
_RETRY_SECONDS: Final = 1.0
_DEADLINE_SECONDS: Final = 5.0
_OK: Final = range(200, 300)
_UNITS: Final = 1000  # of a device node, as KubeVirt's device plugin offers
_SHOWN: Final = 300  # characters of a refusal

TROUBLES: Final = "/etc/hypercobalt/troubles"
"""In a host: what its kubelet reports to be wrong, a `Trouble` a line."""


class Trouble(StrEnum):
    """Troubles that a kubelet can report; the value is the condition's type."""

    MEMORY = "MemoryPressure"
    DISK = "DiskPressure"
    PID = "PIDPressure"
    NOT_READY = "Ready"
    """Ready=False, as with a container runtime that does not answer."""


# Status and reason of each condition without trouble, then with it.
_CONDITIONS: Final = {
    Trouble.MEMORY: (
        ("False", "KubeletHasSufficientMemory"),
        ("True", "KubeletHasInsufficientMemory"),
    ),
    Trouble.DISK: (("False", "KubeletHasNoDiskPressure"), ("True", "KubeletHasDiskPressure")),
    Trouble.PID: (("False", "KubeletHasSufficientPID"), ("True", "KubeletHasInsufficientPID")),
    Trouble.NOT_READY: (("True", "KubeletReady"), ("False", "KubeletNotReady")),
}


class HeartbeatError(HypercobaltError):
    """The API server cannot be reached, or refuses a report."""


@dataclass(frozen=True, slots=True)
class ReportedMachine:
    """A host as its kubelet reports it.

    Args:
        name: of the Node.
        address: of the host.
        info: of its system.
        capacity: for pods, by resource; none where it runs none.
    """

    name: str
    address: str
    info: NodeSystemInfo
    capacity: dict[str, Quantity] = field(default_factory=dict[str, Quantity])


def capacity(pods: int, root: Path = Path("/")) -> dict[str, Quantity]:
    """What the host has for pods: a host of a lab has all that its machine has.

    Device nodes count as those of KubeVirt's device plugin. KVM is not among them: the guests of a
    lab run by emulation, since nested KVM is slower than that.

    Args:
        pods: how many it can have.
        root: where the host's files are.

    Raises:
        OSError: a file is missing.
    """
    lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    total = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal:"))
    disk = os.statvfs(root)
    devices = {
        "devices.kubevirt.io/tun": "dev/net/tun",
        "devices.kubevirt.io/vhost-net": "dev/vhost-net",
    }
    return {
        "cpu": Quantity(os.cpu_count() or 1),
        "memory": Quantity.of_bytes(total * 1024),
        "ephemeral-storage": Quantity.of_bytes(disk.f_blocks * disk.f_frsize),
        "pods": Quantity(pods),
        **{name: Quantity(_UNITS) for name, node in devices.items() if (root / node).exists()},
    }


def observe(
    name: str, address: str, system_uuid: str, root: Path = Path("/"), pods: int = 0
) -> ReportedMachine:
    """Read what the host reports of itself.

    Args:
        name: of the Node.
        address: of the host.
        system_uuid: of the hardware; a container has none to be read.
        root: where the host's files are.
        pods: how many it can have; with none it has no capacity.

    Raises:
        OSError: a file is missing.
    """
    info = NodeSystemInfo(
        machineID=(root / "etc/machine-id").read_text().strip(),
        systemUUID=system_uuid,
        bootID=(root / "proc/sys/kernel/random/boot_id").read_text().strip(),
        kernelVersion=os.uname().release,
        osImage=_pretty_name((root / "etc/os-release").read_text()),
        operatingSystem="linux",
        kubeletVersion="cobalt-lab",
        architecture=architecture(),
    )
    return ReportedMachine(name, address, info, capacity(pods, root) if pods else {})


def architecture() -> str:
    """The machine's, by the name that Kubernetes has for it."""
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _pretty_name(os_release: str) -> str:
    lines = (line.partition("=") for line in os_release.splitlines())
    return next((value.strip('"') for key, _, value in lines if key == "PRETTY_NAME"), "")


def _conditions(troubles: Collection[str]) -> tuple[NodeCondition, ...]:
    return tuple(
        NodeCondition(type=kind, status=status, reason=reason, message="Reported by the lab")
        for kind, ways in _CONDITIONS.items()
        for status, reason in (ways[kind in troubles],)
    )


def decide(
    node: Node, machine: ReportedMachine, now: datetime, troubles: Collection[str] = ()
) -> NodeStatus | None:
    """What to report of a Node, given what the API shows of it; None when that is right already.

    A report has `now` as the heartbeat of every condition; a transition only where one was.
    """
    shown = {condition.type: condition for condition in node.status.conditions}
    wanted = _conditions(troubles)
    addresses = (
        NodeAddress(type="Hostname", address=machine.name),
        NodeAddress(type="InternalIP", address=machine.address),
    )
    if (
        all(_shows(shown.get(condition.type), condition) for condition in wanted)
        and node.status.addresses == addresses
        and node.status.nodeInfo == machine.info
        and node.status.allocatable == machine.capacity
    ):
        return None
    conditions = tuple(_beating(shown.get(c.type), c, now) for c in wanted)
    return NodeStatus(
        capacity=machine.capacity,
        allocatable=machine.capacity,
        addresses=addresses,
        conditions=conditions,
        nodeInfo=machine.info,
    )


def _shows(old: NodeCondition | None, wanted: NodeCondition) -> bool:
    return old is not None and (old.status, old.reason) == (wanted.status, wanted.reason)


def _beating(old: NodeCondition | None, wanted: NodeCondition, now: datetime) -> NodeCondition:
    since = old.lastTransitionTime if old is not None and old.status == wanted.status else now
    return replace(wanted, lastHeartbeatTime=now, lastTransitionTime=since)


class Api:
    """The API server, as one Node sees it: blocking calls on one connection.

    Args:
        server: its URL.
        credentials: folder with the authority, the client's certificate and its key.
    """

    def __init__(self, server: str, credentials: Path) -> None:
        where = urllib.parse.urlsplit(server)
        context = ssl.create_default_context(cafile=credentials / CA)
        context.load_cert_chain(credentials / CERTIFICATE, credentials / KEY)
        self._connection = http.client.HTTPSConnection(
            where.hostname or "", where.port, timeout=_DEADLINE_SECONDS, context=context
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def get(self, path: str) -> bytes:
        """Read an object.

        Raises:
            HeartbeatError: the server cannot be reached, or refuses.
        """
        return self._send("GET", path)

    def patch(self, path: str, kind: str, body: object) -> bytes:
        """Patch an object.

        Raises:
            HeartbeatError: the server cannot be reached, or refuses.
        """
        sent = msgspec.json.encode(body)
        return self._send("PATCH", f"{path}?fieldManager={MANAGER}", sent, f"application/{kind}")

    def _send(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> bytes:
        headers = {"Accept": "application/json", "User-Agent": MANAGER}
        if kind:
            headers["Content-Type"] = kind
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # the next request opens another
            raise HeartbeatError(f"{method} {path}: {error}") from error
        if answer.status not in _OK:
            text = data.decode(errors="replace")[:_SHOWN]
            raise HeartbeatError(f"{method} {path}: {answer.status} {text}")
        return data


def beat(api: Api, machine: ReportedMachine, now: datetime, troubles: Collection[str] = ()) -> None:
    """Renew the Lease, then report what the Node does not show.

    Raises:
        HeartbeatError: the server cannot be reached, or refuses.
        DecodeError: what it sends is no Node.
    """
    spec = LeaseSpec(
        holderIdentity=machine.name, leaseDurationSeconds=LEASE_SECONDS, renewTime=micro_time(now)
    )
    lease = Lease.resource.path(LEASE_NAMESPACE, machine.name)
    api.patch(lease, "merge-patch+json", {"spec": codec.to_builtins(spec)})
    path = Node.resource.path(None, machine.name)
    report = decide(codec.decode(api.get(path), Node), machine, now, troubles)
    if report is not None:
        body = {"status": codec.to_builtins(report)}
        api.patch(f"{path}/status", "strategic-merge-patch+json", body)


def _troubles() -> tuple[str, ...]:
    try:
        return tuple(Path(TROUBLES).read_text().split())
    except FileNotFoundError:
        return ()


def main(arguments: Sequence[str] | None = None) -> None:
    """Report until the process is killed, as a kubelet does: nothing is released at the end."""
    parser = argparse.ArgumentParser(prog="hypercobalt.lab.heartbeat")
    parser.add_argument("--server", required=True)
    parser.add_argument("--credentials", required=True, type=Path)
    parser.add_argument("--node", required=True)
    parser.add_argument("--node-ip", required=True)
    parser.add_argument("--system-uuid", required=True)
    parser.add_argument("--pods", type=int, default=0)
    parser.add_argument("--interval", type=float, default=INTERVAL_SECONDS)
    given = parser.parse_args(arguments)
    machine = observe(given.node, given.node_ip, given.system_uuid, pods=given.pods)
    api = Api(given.server, given.credentials)
    complaint = ""
    while True:
        try:
            beat(api, machine, datetime.now(UTC), _troubles())
        except HypercobaltError as error:
            if str(error) != complaint:
                sys.stderr.write(f"node_not_reported: {error}\n")
            complaint = str(error)
            time.sleep(min(_RETRY_SECONDS, given.interval))
            continue
        complaint = ""
        time.sleep(given.interval)


if __name__ == "__main__":
    main()
