"""Settings of a site for the lifecycle of its hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.errors import ConfigurationError
from hypercobalt.operator.shared.ha_mode import HaMode

_VERSION: Final = re.compile(r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?", re.ASCII)
NODE, HYPERVISOR = "node:", "hypervisor:"


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """Settings of the steps; the flags of `cobalt operator` set them.

    Args:
        test_aggregate: aggregate of a host while it is tested, besides its zone; "" for none.
        minimum_libvirt: oldest version that onboarding lets pass, `major.minor.release`.
        bridge: bridge that an OVSNode must show as healthy, if the host has an OVSNode.
        ovs_namespace: of the OVSNodes; "" for a site without OVS agents, where none is checked.
        storage_probes: conditions that must be True, as `node:TYPE` or `hypervisor:TYPE`.
        test_tries: servers that the smoke test boots before it gives up.
        poll: interval between two reads of a test server.
        build_limit: how long a server may take to run, or to be gone.
        console_limit: how long one that runs may take to print its name.
        retry_pause: how long an onboarding that failed rests.
        forgotten: a host in termination that was registered, and that the compute service has not
            known for so long, has no servers there. It is no flag: long enough for a service that
            is created again, and soon enough for a host that has to go.
        compare: the fleet is compared with OpenStack this often: people and other programs change
            aggregates, traits and services there, and OpenStack reports nothing. It costs three
            listings, and a read of the traits for each provider whose generation has moved.
        resync: every host gets a pass this often, even without a change: a safety net for changes
            that `compare` does not see.
        ha: who reacts to failures of hosts.
    """

    test_aggregate: str = "tenant_filter_tests"
    minimum_libvirt: str = "8.0.0"
    bridge: str = "br-int"
    ovs_namespace: str = ""
    storage_probes: tuple[str, ...] = ()
    test_tries: int = 3
    poll: timedelta = timedelta(seconds=5)
    build_limit: timedelta = timedelta(minutes=10)
    console_limit: timedelta = timedelta(minutes=5)
    retry_pause: timedelta = timedelta(hours=1)
    forgotten: timedelta = timedelta(minutes=5)
    compare: timedelta = timedelta(minutes=1)
    resync: timedelta = timedelta(minutes=30)
    ha: HaMode = HaMode.EXTERNAL


def parse_version(text: str) -> tuple[int, int, int] | None:
    """`major.minor.release`, or `major.minor`; None for anything else."""
    found = _VERSION.fullmatch(text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def check_probe(text: str) -> str:
    """Return a storage probe as it was configured, if it is valid.

    Raises:
        ConfigurationError: it cannot be read.
    """
    if text.startswith((NODE, HYPERVISOR)) and text.partition(":")[2]:
        return text
    raise ConfigurationError(
        f"--storage-probes {text!r}: must be node:TYPE or hypervisor:TYPE, TYPE of a condition"
    )
