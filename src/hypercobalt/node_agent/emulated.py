"""A host that is made up, for running an agent where there is no libvirt and no systemd."""

from __future__ import annotations

from hypercobalt.adapters.host.boot import Boot
from hypercobalt.adapters.host.fake import FakePods, FakeShutdown, FakeSystem, FakeUnits
from hypercobalt.adapters.host.model import OperatingSystem, UnitState
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.node_agent.agent import Host
from hypercobalt.node_agent.settings import DEFAULT_UNITS

_GIB = 1024**3


def emulated_host() -> Host:
    """A host with two units that run, one running domain and one that is shut off."""
    libvirt = FakeLibvirt()
    for number, active in enumerate((True, False)):
        state = DomainState.RUNNING if active else DomainState.SHUTOFF
        uuid = f"00000000-0000-4000-8000-00000000000{number}"
        libvirt.put(Domain(uuid, f"instance-{number}", active, state, _GIB, 1))
    units = FakeUnits(*(UnitState(name, "loaded", "active", "running") for name in DEFAULT_UNITS))
    system = OperatingSystem(pretty_version="Emulated", kernel_name="Linux")
    return Host(libvirt, units, FakeShutdown(), FakeSystem(system), Boot("emulated"), FakePods())
