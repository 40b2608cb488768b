"""Versions and DPDK. Pure.

What runs is what the daemons answer: the start script alone writes `ovs_version`, which is empty
without it, and wrong after an upgrade without a restart.

Source: ovs-vswitchd.conf.db(5), table Open_vSwitch.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypercobalt.ovs_agent.facts import SwitchFacts


@dataclass(frozen=True, slots=True)
class Versions:
    """What runs; None where nothing proves it."""

    ovs: str | None = None
    ovsdb_server: str | None = None
    dpdk_enabled: bool | None = None
    dpdk: str | None = None


def versions_of(facts: SwitchFacts) -> Versions:
    """Versions of what answers."""
    vswitchd, server = facts.vswitchd.proven, facts.ovsdb_server.proven
    database = facts.effective
    dpdk = (database.switch.dpdk_version or "") if database else ""
    return Versions(
        ovs=(vswitchd.version or (database.switch.ovs_version if database else "") or None)
        if vswitchd
        else None,
        ovsdb_server=server.version or None if server else None,
        dpdk_enabled=database.switch.dpdk_initialized if database else None,
        dpdk=dpdk.removeprefix("DPDK ") if dpdk not in ("", "none") else None,
    )
