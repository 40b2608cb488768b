"""The compute service `direct` on real hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypercobalt.adapters.libvirt import uri
from hypercobalt.adapters.libvirt.remote.daemon import RemoteDaemons
from hypercobalt.adapters.ovn.northbound import Northbound, parse_remotes
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.direct.directory import HypervisorDirectory, fill
from hypercobalt.compute.direct.fenced import FencedDaemons, FencedPorts
from hypercobalt.compute.direct.ports import NoPorts, Ports
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.fence import Fence


def connect(
    hypervisors: Callable[[], Iterable[Hypervisor]], settings: DirectSettings, fence: Fence
) -> DirectService:
    """Put it together; no host is asked yet.

    Raises:
        ConfigurationError: an address is none.
    """
    for template in (settings.control, settings.migration):
        uri.parse(fill(template, "host", "192.0.2.1"))
    ports: Ports = NoPorts()
    if settings.northbound:
        ports = Northbound(parse_remotes(settings.northbound))
    directory = HypervisorDirectory(hypervisors, settings)
    daemons = FencedDaemons(RemoteDaemons(), fence)
    return DirectService(directory, daemons, FencedPorts(ports, fence), tls=settings.tls)
