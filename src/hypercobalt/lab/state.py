"""Record of what a lab has made or is about to make: one JSON file, written first.

`down` reads it after whatever crash; a thing that is not in the file does not exist. Processes are
not in it: they carry their own mark (`processes`). A copy lies where it goes at a reboot, as the
processes do: a lab whose directory was removed can still be taken down.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import uuid
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

import msgspec

from hypercobalt.lab.errors import LabError, LabRequestError
from hypercobalt.lab.machine import facts

REMEDY: Final = "run this command as root, for example with sudo"
NAME_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # a DNS label: it is a host name
MAX_HOST_NAME = 52  # X.509 allows 64 in the common name of its kubelet, `system:node:NAME`
NODE_GRACE: Final = timedelta(seconds=50)  # kube-controller-manager's default
RUNNING: Final = Path("/run/hypercobalt/labs")  # emptied at a reboot
_POD_NETWORKS: Final = ipaddress.IPv4Network("100.64.0.0/10")
MAX_HOSTS = 200  # addresses above are for the machine and for what tests put on the network


class HostRecord(msgspec.Struct, frozen=True):
    """One host: its name, and the number that its addresses and device names come from."""

    name: str
    index: int


class LabState(msgspec.Struct, frozen=True):
    """One lab."""

    id: str  # 32 hexadecimal digits
    number: int  # of the subnet and of every name on the machine
    api_port: int = 6443
    hosts: tuple[HostRecord, ...] = ()
    node_grace: float = NODE_GRACE.total_seconds()  # seconds that a Node may be silent
    vms: int = 0  # requested by the first `up`, until all of them are made
    openstack: str = ""  # programs of its OpenStack, a folder that hosts see; "" in a lab without
    supervised: bool = False  # whether what dies is started again
    virt: bool = False  # whether it runs VirtualMachineInstances
    version: Literal[1] = 1

    @property
    def prefix(self) -> str:
        """The prefix of every name on the machine."""
        return f"hc{self.number}"

    @property
    def is_quick(self) -> bool:
        """Whether its waits are short: a Node is Unknown sooner than at a site."""
        return self.node_grace < NODE_GRACE.total_seconds()

    @property
    def bridge(self) -> str:
        return f"{self.prefix}br"

    @property
    def bridge_mac(self) -> str:
        """A MAC address that only this lab's bridge has: locally administered, from the id."""
        digits = "02" + self.id[:10]
        return ":".join(digits[i : i + 2] for i in range(0, 12, 2))

    @property
    def network(self) -> ipaddress.IPv4Network:
        """The management network of the hosts."""
        return subnet(self.number)

    @property
    def address(self) -> str:
        """The machine on that network: the API server, OVN's databases."""
        return str(self.network[254])

    def host_address(self, host: HostRecord) -> str:
        return str(self.network[host.index])

    def pod_network(self, host: HostRecord) -> ipaddress.IPv4Network:
        """Addresses of a host's pods, which no other host of any lab has: 62 of 100.64.0.0/10."""
        first = int(_POD_NETWORKS[0]) + (self.number << 14) + (host.index << 6)
        return ipaddress.IPv4Network((first, 26))

    def host(self, name: str) -> HostRecord:
        """The record of a host.

        Raises:
            LabRequestError: there is none of that name.
        """
        for host in self.hosts:
            if host.name == name:
                return host
        names = ", ".join(host.name for host in self.hosts) or "none"
        raise LabRequestError(f"host {name!r} is not in the lab; there are: {names}")

    def with_host(self, name: str) -> LabState:
        """The lab with one host more.

        Raises:
            LabRequestError: the name is taken or is no host name, or there are too many.
        """
        if not NAME_PATTERN.fullmatch(name) or len(name) > MAX_HOST_NAME:
            raise LabRequestError(
                f"host name {name!r} must be lower-case letters, digits and hyphens, at most "
                f"{MAX_HOST_NAME} characters"
            )
        if any(host.name == name for host in self.hosts):
            raise LabRequestError(f"host {name!r} is in the lab already")
        taken = {host.index for host in self.hosts}
        free = next((index for index in range(1, MAX_HOSTS + 1) if index not in taken), None)
        if free is None:
            raise LabRequestError(f"a lab has at most {MAX_HOSTS} hosts")
        return msgspec.structs.replace(self, hosts=(*self.hosts, HostRecord(name, free)))

    def without_host(self, name: str) -> LabState:
        gone = self.host(name)
        left = tuple(host for host in self.hosts if host is not gone)
        return msgspec.structs.replace(self, hosts=left)


def subnet(number: int) -> ipaddress.IPv4Network:
    """The network of the lab with that number, 0 to 255."""
    return ipaddress.IPv4Network(f"10.77.{number}.0/24")


def new(api_port: int, node_grace: timedelta) -> LabState:
    """A lab that has no network yet."""
    return LabState(uuid.uuid4().hex, 0, api_port, node_grace=node_grace.total_seconds())


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything of a lab lies: one directory, by the path that the kernel has."""

    data: Path

    @classmethod
    def at(cls, data: Path) -> Layout:
        return cls(data.resolve())

    @property
    def state(self) -> Path:
        return self.data / "state.json"

    @property
    def new_state(self) -> Path:
        """The state while it is written."""
        return self.data / "state.new"

    @property
    def lock(self) -> Path:
        return self.data / "lock"

    @property
    def restart_lock(self) -> Path:
        """Held while something is started, by a command or by the supervisor."""
        return self.data / "lock.restart"

    @property
    def holds(self) -> Path:
        """Processes that a command has stopped."""
        return self.data / "holds"

    @property
    def supervision(self) -> Path:
        return self.data / "supervision"

    @property
    def restarts(self) -> Path:
        """What the supervisor has started again."""
        return self.supervision / "restarts.json"

    @property
    def api(self) -> Path:
        return self.data / "api"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.api / "kubeconfig"

    @property
    def operator_kubeconfig(self) -> Path:
        return self.api / "operator.kubeconfig"

    @property
    def operator_token(self) -> Path:
        return self.api / "operator.token"

    @property
    def controller_kubeconfig(self) -> Path:
        """Kubeconfig of virt-controller."""
        return self.api / "virt-controller.kubeconfig"

    @property
    def controller_token(self) -> Path:
        return self.api / "virt-controller.token"

    @property
    def scheduler_kubeconfig(self) -> Path:
        return self.api / "scheduler.kubeconfig"

    @property
    def images(self) -> Path:
        """Directories that stand for images of pods; every host sees them."""
        return self.data / "images"

    @property
    def pki(self) -> Path:
        """The authority of the certificates by which QEMUs encrypt migrations."""
        return self.data / "pki"

    @property
    def log(self) -> Path:
        return self.data / "log"

    @property
    def openstack(self) -> Path:
        """Configuration, databases and files of the lab's OpenStack."""
        return self.data / "openstack"

    @property
    def clouds(self) -> Path:
        """Accounts of the lab's OpenStack, as its own clients read them."""
        return self.openstack / "clouds.yaml"

    @property
    def ovn(self) -> Path:
        return self.data / "ovn"

    @property
    def rack(self) -> Path:
        """Directory of the switch that the hosts' data cables end in."""
        return self.data / "rack"

    @property
    def member_faults(self) -> Path:
        """Faults of the data cables of each host."""
        return self.data / "member-faults"

    @property
    def shared(self) -> Path:
        """The directory that hosts see as a network file system, for VM disks."""
        return self.data / "shared"

    @property
    def shared_files(self) -> Path:
        """Where the files of `shared` are."""
        return self.data / "shared-files"

    @property
    def storage_faults(self) -> Path:
        """Faults of the shared disks of each host."""
        return self.data / "storage-faults"

    @property
    def hosts(self) -> Path:
        return self.data / "hosts"

    def host(self, name: str) -> Path:
        """A tmpfs with the writable layer of a host's disk."""
        return self.hosts / name

    def root(self, name: str) -> Path:
        """A host's root directory, as the machine sees it."""
        return self.host(name) / "root"


OWNED: Final = (
    "api",
    "bmc",
    "guest",
    "holds",
    "hosts",
    "images",
    "log",
    "member-faults",
    "openstack",
    "ovn",
    "pki",
    "rack",
    "shared",
    "shared-files",
    "storage-faults",
    "supervision",
    "vms",
)
"""What `down` removes of a data directory, beside the state: a person may have put more there."""


def why(error: OSError) -> str:
    """The machine's error about a file of a lab, and what helps."""
    what = f"{error.strerror}"
    return f"{what}; {REMEDY}" if isinstance(error, PermissionError) else what


def load(layout: Layout) -> LabState | None:
    """The lab in a data directory; None when there is none.

    Raises:
        LabError: the file is damaged or of another version.
    """
    try:
        return msgspec.json.decode(layout.state.read_bytes(), type=LabState)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise LabError(f"{layout.state} cannot be read: {why(exc)}") from exc
    except msgspec.DecodeError as exc:
        raise LabError(f"{layout.state} cannot be read: {exc}") from exc


def save(layout: Layout, state: LabState) -> None:
    """Replace the file at once, whole: a crash leaves the old one or the new one.

    Raises:
        LabError: it cannot be written.
    """
    try:
        with layout.new_state.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(state), indent=2))
            file.flush()
            os.fsync(file.fileno())
        layout.new_state.replace(layout.state)
    except OSError as exc:
        raise LabError(f"{layout.state} cannot be written: {why(exc)}") from exc


class _Copy(msgspec.Struct, frozen=True):
    data: str
    state: LabState


def save_running(layout: Layout, state: LabState) -> None:
    """Write the record and its copy; for a lab that is being made.

    Raises:
        LabError: it cannot be written.
    """
    save(layout, state)
    try:
        RUNNING.mkdir(parents=True, exist_ok=True)
        _copy(state).write_bytes(msgspec.json.encode(_Copy(str(layout.data), state)))
    except OSError as exc:
        raise LabError(f"{_copy(state)} cannot be written: {why(exc)}") from exc


def known(layout: Layout, *, lost_too: bool = False) -> LabState | None:
    """The state of a lab that is there; None when there is none.

    Args:
        layout: of its data directory.
        lost_too: also of one whose files were removed while it ran, to take it down.

    Raises:
        LabError: it cannot be read; or its files were removed; or we are not root, and would take
            everything for dead, for no other user sees a process of the lab.
    """
    state = load(layout)
    if state is None and (state := lost(layout)) is not None and not lost_too:
        raise LabError(
            f"the files in {layout.data} were removed while the lab ran; take down what still runs "
            f"with `cobalt lab down --data {layout.data}`"
        )
    if state is not None and not facts.is_root():
        raise LabError(f"the lab in {layout.data} is root's: {REMEDY}")
    return state


def lost(layout: Layout) -> LabState | None:
    """The lab whose data directory was removed, or lost its state, while it ran; None if none."""
    if layout.state.exists():
        return None
    for file in RUNNING.glob("*.json"):
        with contextlib.suppress(OSError, msgspec.DecodeError):  # another lab's, being written
            found = msgspec.json.decode(file.read_bytes(), type=_Copy)
            if found.data == str(layout.data):
                return found.state
    return None


def forget(layout: Layout, state: LabState) -> None:
    """Remove the file and its copy: the lab is gone."""
    layout.state.unlink(missing_ok=True)
    _copy(state).unlink(missing_ok=True)


def _copy(state: LabState) -> Path:
    return RUNNING / f"{state.id}.json"
