"""All that one pass over an Eviction has read. `observe` fills it; the rules read nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from hypercobalt.api.eviction import Eviction, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.model import (
    Capacity,
    Host,
    Move,
    RestartResult,
    Server,
    ServerAction,
    Size,
)
from hypercobalt.errors import HypercobaltError
from hypercobalt.operator.eviction.model.states import Mode, Moment
from hypercobalt.operator.eviction.model.tracks import Job
from hypercobalt.operator.eviction.model.whereabouts import Whereabouts
from hypercobalt.operator.shared.guests import NO_GUESTS, HostGuests


@dataclass(frozen=True, slots=True)
class Need:
    """A server's needs of a host: servers with equal needs could go to the same hosts.

    Args:
        size: of the server.
        claim: resources that the compute service claims besides.
    """

    size: Size
    claim: str


def need(server: Server) -> Need:
    """Return a server's needs of a host."""
    return Need(server.size, server.claim)


@dataclass(frozen=True, slots=True)
class Networks:
    """Hosts by the instances that their networks keep out, under the compute service's names.

    Args:
        broken: nothing goes there.
        unbound: OVN binds no ports there.
        named: a target has to be named: the compute service does not leave all of them out itself.
    """

    broken: frozenset[str] = frozenset()
    unbound: frozenset[str] = frozenset()
    named: bool = False

    def without_broken(self, candidates: Iterable[Capacity]) -> tuple[Capacity, ...]:
        """The candidates that may take anything at all."""
        return tuple(candidate for candidate in candidates if candidate.host not in self.broken)

    def taking(self, mode: Mode, candidates: Sequence[Capacity]) -> tuple[Capacity, ...]:
        """The candidates that may take an instance that moves in this way."""
        if mode is not Mode.LIVE:
            return tuple(candidates)
        return tuple(candidate for candidate in candidates if candidate.host not in self.unbound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts of a pass, in the order of reading; none is read after one that settles the pass.

    Args:
        eviction: as stored.
        status: as decided last, which may not be written yet.
        moment: of the last reading.
        service: name of the compute service.
        chooses_target: the compute service finds targets itself.
        keeps_servers: the list of servers is the service's own: one that it lacks is deleted.
        hypervisor: None when this operator has none of that name.
        of_other_shard: another operator has it.
        trouble: why the compute service could not be read.
        looked: the host was read from the compute service.
        host: None when the compute service has no such host.
        unknown_for: how long the compute service has had no such host.
        lingered: instances were seen there, or counted, that have to leave.
        servers: servers on the host.
        reused: the servers are as they were a moment ago: nothing may be begun by them.
        moves: records of moves away from the host, newest first.
        elsewhere: servers that have left, as they are where they are now, by UUID.
        sought: servers that were looked up; one that `elsewhere` lacks is on no host.
        left: where the instances are that have left, read at the end of the Eviction, by UUID.
        neighbours: Hypervisors of hosts to which moves of instances went that may run there unknown
            to the compute service, by its name for them.
        requests: requests for instances that must be restarted, by UUID.
        restarts: results of restarts that may be over, by UUID.
        held: instances that another running Eviction has, with its name, by UUID.
        jobs: live migrations as the node agents report them, by UUID.
        groups_refused: why the servers are listed without their groups; "" if they have them.
        networks: hosts whose networks keep instances out.
        candidates: hosts that could take an instance, for each need that was queried.
        targets: hosts that could take the next instance; None: not read yet.
        limits: moves at once that targets have shown to bear.
        counted: UUIDs that the compute service counts to the host; None: it was not read, or
            has no such host just now.
        counted_for: how long the compute service has counted servers that it does not list.
        incoming: moves to the host that went on before it was counted, if all of it has to leave.
        guests: VirtualMachineInstances on the host, if nothing may be left there.
    """

    eviction: Eviction
    status: EvictionStatus
    moment: Moment
    service: str = ""
    chooses_target: bool = True
    keeps_servers: bool = True
    hypervisor: Hypervisor | None = None
    of_other_shard: bool = False
    trouble: HypercobaltError | None = None
    looked: bool = False
    host: Host | None = None
    unknown_for: timedelta = timedelta(0)
    lingered: bool = False
    servers: tuple[Server, ...] = ()
    reused: bool = False
    moves: tuple[Move, ...] = ()
    elsewhere: Mapping[str, Server] = field(default_factory=dict[str, Server])
    sought: frozenset[str] = frozenset()
    left: Mapping[str, Whereabouts] = field(default_factory=dict[str, Whereabouts])
    neighbours: Mapping[str, Hypervisor] = field(default_factory=dict[str, Hypervisor])
    requests: Mapping[str, tuple[ServerAction, ...]] = field(
        default_factory=dict[str, tuple[ServerAction, ...]]
    )
    restarts: Mapping[str, RestartResult] = field(default_factory=dict[str, RestartResult])
    held: Mapping[str, str] = field(default_factory=dict[str, str])
    jobs: Mapping[str, Job] = field(default_factory=dict[str, Job])
    groups_refused: str = ""
    networks: Networks = field(default_factory=Networks)
    candidates: Mapping[Need, tuple[Capacity, ...]] = field(
        default_factory=dict[Need, tuple[Capacity, ...]]
    )
    targets: tuple[str, ...] | None = None
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    counted: frozenset[str] | None = None
    counted_for: timedelta = timedelta(0)
    incoming: tuple[Move, ...] = ()
    guests: HostGuests = NO_GUESTS

    @property
    def source(self) -> str:
        """Name of the host that is emptied, as Kubernetes has it."""
        return self.eviction.spec.hypervisor

    @property
    def is_deleted(self) -> bool:
        """Whether the Eviction must be cancelled."""
        return self.eviction.metadata.deletionTimestamp is not None
