"""A bridge and ovn-controller as their daemons show them; what cannot be read is a note."""

from __future__ import annotations

import pytest
from tests.unit.ovs_agent.diagnostics.networks import facts, mac, switch

from hypercobalt.adapters.ovs.internals import (
    BridgeOfDatapath,
    EngineNode,
    MacEntry,
    MacTable,
    PortOfDatapath,
)
from hypercobalt.adapters.ovs.model import ControllerState, DaemonName, LocalBinding
from hypercobalt.adapters.ovs.port import SwitchError
from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.ovs_agent.diagnostics import internals
from hypercobalt.ovs_agent.diagnostics.report import (
    BoundPort,
    BridgePort,
    BridgeReport,
    ControllerReport,
    EnginePart,
    LearnedMac,
)
from hypercobalt.ovs_agent.facts import SwitchFacts

LOCAL = 65534
EVICTED = {"Total number of evicted MAC entries": 3}


async def test_a_bridge_has_its_datapath_and_the_mac_addresses_behind_each_port() -> None:
    fake = switch()
    entries = (
        MacEntry(9, 7, mac(3), None),
        MacEntry(1, 0, mac(2), 5),
        MacEntry(LOCAL, 0, mac(1), 0),
    )
    fake.mac_tables["br-ex"] = MacTable(entries, EVICTED)
    uplink = PortOfDatapath("eth0", 1, 3, "system")
    fake.bridge_states = (
        BridgeOfDatapath("br-int", "system@ovs-system", 10, 2),
        BridgeOfDatapath("br-ex", "system@ovs-system", 10, 2, (uplink,)),
    )
    assert await internals.bridge(fake, facts(), {"bridge": "br-ex"}) == BridgeReport(
        name="br-ex",
        datapath="system@ovs-system",
        hits=10,
        missed=2,
        ports=(BridgePort("eth0", 1, "system", 3),),
        macs=(
            LearnedMac(mac(1), 0, "br-ex", 0),
            LearnedMac(mac(2), 0, "eth0", 5),
            LearnedMac(mac(3), 7, "9"),
        ),
        macs_total=3,
        mac_counters=EVICTED,
    )


async def test_very_many_mac_addresses_are_counted_and_the_first_listed() -> None:
    fake, number = switch(), internals.MOST_MACS + 5
    entries = (
        MacEntry(1, 0, f"fa:16:3e:00:{one >> 8:02x}:{one & 255:02x}", 0) for one in range(number)
    )
    fake.mac_tables["br-ex"] = MacTable(tuple(entries))
    found = await internals.bridge(fake, facts(), {"bridge": "br-ex"})
    assert (len(found.macs), found.macs_total) == (internals.MOST_MACS, number)


@pytest.mark.parametrize("parameters", [{}, {"bridge": "br-none"}, {"bridge": "br-ex br-int"}])
async def test_only_bridges_of_this_host_are_read(parameters: dict[str, str]) -> None:
    fake = switch()
    with pytest.raises(
        RefusedUseError, match="is not a bridge of this host; there are br-ex, br-int"
    ):
        await internals.bridge(fake, facts(), parameters)
    assert not fake.calls["macs"]


async def test_a_bridge_without_its_daemons_is_an_error_and_not_an_empty_bridge() -> None:
    with pytest.raises(SwitchError, match="not read yet"):
        await internals.bridge(switch(), SwitchFacts(), {"bridge": "br-ex"})
    fake = switch()
    fake.fail(DaemonName.VSWITCHD)
    found = await internals.bridge(fake, facts(), {"bridge": "br-ex"})
    assert [one.partition(":")[0] for one in found.notes] == [
        "MAC addresses",
        "ports of the datapath",
    ]


async def test_ovn_controller_shows_bindings_zones_and_what_it_computes_most() -> None:
    fake = switch()
    fake.controller_state = ControllerState(connected=True, paused=True)
    fake.bindings = (LocalBinding("lp1", "tap1", 1),)
    fake.zone_numbers = {"lp1": 4}
    fake.engine_nodes = (EngineNode("a", 1, 9, 0), EngineNode("b", 7, 0, 1))
    fake.cache_counters = {"total": 61}
    assert await internals.controller(fake) == ControllerReport(
        connected=True,
        paused=True,
        bindings=(BoundPort("lp1", "tap1", 1),),
        zones={"lp1": 4},
        engine=(EnginePart("b", 7, 0, 1), EnginePart("a", 1, 9, 0)),
        cache={"total": 61},
    )


async def test_an_ovn_controller_that_does_not_answer_is_notes() -> None:
    fake = switch()
    fake.fail(DaemonName.OVN_CONTROLLER)
    found = await internals.controller(fake)
    assert found.connected is None
    assert [one.partition(":")[0] for one in found.notes] == [
        "state",
        "bindings",
        "zones of connection tracking",
        "parts of its work",
        "cache of logical flows",
    ]
