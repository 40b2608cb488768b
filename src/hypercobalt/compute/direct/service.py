"""The compute service `direct`, put together."""

from __future__ import annotations

from datetime import timedelta

from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.port import Daemons
from hypercobalt.compute.direct.answers import Answers
from hypercobalt.compute.direct.carrying import Carrying
from hypercobalt.compute.direct.definitions import NotStored, Stored
from hypercobalt.compute.direct.directory import Directory
from hypercobalt.compute.direct.hosts import DirectHosts
from hypercobalt.compute.direct.identity import Identities
from hypercobalt.compute.direct.marks import Marks
from hypercobalt.compute.direct.moves import DirectMoves
from hypercobalt.compute.direct.ports import Ports
from hypercobalt.compute.direct.records import Records
from hypercobalt.compute.direct.recovery import DirectRecovery
from hypercobalt.compute.direct.shared_disks import Sharing
from hypercobalt.compute.direct.site import Site
from hypercobalt.compute.direct.tasks import MoveTasks
from hypercobalt.compute.direct.witnesses import Witnesses
from hypercobalt.runtime import Clock, SystemClock


class DirectService:
    """See `hypercobalt.compute.port.ComputeService`.

    Args:
        directory: the hosts.
        daemons: connects to the hosts.
        ports: the virtual network.
        stored: definitions of dead hosts; None where none are stored.
        tls: QEMU's own streams are encrypted.
        allowed: allow-list for definitions that go from host to host.
        clock: for tests.
    """

    def __init__(
        self,
        directory: Directory,
        daemons: Daemons,
        ports: Ports,
        *,
        stored: Stored | None = None,
        tls: bool = True,
        allowed: Allowed | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._daemons, self._ports = daemons, ports
        answers, stored = Answers(daemons, clock), stored or NotStored()
        carrying = Carrying(allowed or Allowed())
        marks = Marks(stored)
        witnesses = Witnesses(stored, answers, marks, Records())
        self.hosts = DirectHosts(directory, daemons, witnesses)
        site = Site(
            hosts=self.hosts,
            daemons=daemons,
            ports=ports,
            sharing=Sharing(daemons, clock, stored, carrying.allowed.directories),
            identities=Identities(daemons, clock),
            clock=clock,
            witnesses=witnesses,
            carrying=carrying,
        )
        self._tasks = MoveTasks(site)
        self.moves = DirectMoves(site, self._tasks, tls=tls)
        self.recovery = DirectRecovery(site, self.moves, self._tasks)

    @property
    def name(self) -> str:
        return "direct"

    @property
    def providers(self) -> None:
        """None: resource providers need Placement."""

    @property
    def owners(self) -> None:
        """None: without OpenStack servers have no owners."""

    @property
    def aggregates(self) -> None:
        """None: aggregates need OpenStack."""

    @property
    def traits(self) -> None:
        """None: traits need Placement."""

    @property
    def smoke_tests(self) -> None:
        """None: nothing is booted on a new host."""

    @property
    def counts_servers(self) -> bool:
        """False: only the host reports what is on it."""
        return False

    @property
    def silence(self) -> timedelta:
        """Zero: libvirtd on the host answers each read itself."""
        return timedelta(0)

    @property
    def trouble(self) -> str:
        """Each host answers for itself; no service in between could be away."""
        return ""

    async def close(self) -> None:
        await self._tasks.close()
        await self.hosts.close()
        await self._ports.close()
        await self._daemons.close()
