"""What the daemons print is read; what they would never print is refused or passed over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypercobalt.adapters.ovs.internals import (
    BridgeOfDatapath,
    EngineNode,
    MacEntry,
    PortOfDatapath,
)
from hypercobalt.adapters.ovs.model import (
    BondMember,
    BondState,
    Datapath,
    LacpStatus,
    LocalBinding,
    PmdQueues,
    RxQueue,
    Stopwatch,
    Upcalls,
)
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.text import (
    bonds,
    bridges,
    controller,
    counters,
    datapaths,
    pmd,
)
from hypercobalt.adapters.ovs.text.trace import parse_trace

RECORDED = Path(__file__).parent / "recorded"
ENABLED, DISABLED, ACTIVE = "enabled", "disabled", "active"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def bond(
    name: str, mode: str, lacp: LacpStatus, *, fallback: bool = False, **members: str
) -> BondState:
    return BondState(
        name,
        mode,
        lacp,
        fallback,
        tuple(BondMember(one, how != DISABLED, how == ACTIVE) for one, how in members.items()),
    )


VERSIONS = sorted(path.name for path in RECORDED.iterdir() if path.name[0].isdigit())
of_every_version = pytest.mark.parametrize("version", VERSIONS)


def test_versions_before_and_after_that_of_the_lab_are_recorded() -> None:
    numbers = [tuple(map(int, one.split("."))) for one in VERSIONS]
    assert min(numbers) < (3, 0)
    assert max(numbers) >= (4, 0)


def bonds_of(version: str, state: str) -> dict[str, BondState]:
    found = bonds.parse_bonds(recorded(f"{version}/{state}-bond-show.txt"))
    return {one.name: one for one in found}


def members(found: BondState) -> dict[str, bool]:
    return {one.name: one.enabled for one in found.members}


@of_every_version
def test_healthy_bonds_of_each_mode_are_read(version: str) -> None:
    found = bonds_of(version, "healthy")
    off, negotiated = LacpStatus.OFF, LacpStatus.NEGOTIATED
    assert {one.name: (one.mode, one.lacp, one.fallback) for one in found.values()} == {
        "bond-tcp": ("balance-tcp", negotiated, False),
        "bond-slb": ("balance-slb", off, False),
        "bond-silent": ("active-backup", LacpStatus.CONFIGURED, True),
        "bond-ab": ("active-backup", off, False),
        "bond-tor": ("balance-tcp", negotiated, False),
    }
    names = dict(
        zip(("bond-tcp", "bond-ab", "bond-slb", "bond-silent"), range(0, 8, 2), strict=True)
    )
    for name, first in names.items():
        assert members(found[name]) == {f"p{first}": True, f"p{first + 1}": True}
        assert [one.active for one in found[name].members].count(True) == 1


@of_every_version
def test_a_cable_that_is_cut_disables_its_member(version: str) -> None:
    found = bonds_of(version, "cut")
    assert found["bond-tcp"].members == (
        BondMember("p0", enabled=False),
        BondMember("p1", enabled=True, active=True),
    )


@of_every_version
def test_bond_without_any_carrier_has_no_enabled_member(version: str) -> None:
    found = bonds_of(version, "broken")
    off = (BondMember("p4", enabled=False), BondMember("p5", enabled=False))
    assert found["bond-slb"].members == off
    assert members(found["bond-tcp"]) == {"p0": False, "p1": False}


@of_every_version
def test_lacp_counts_as_negotiated_for_a_while_although_no_partner_has_answered(
    version: str,
) -> None:
    """Why members count and `lacp_status` alone does not."""
    (found,) = bonds_of(version, "silent").values()
    assert found.lacp in {LacpStatus.NEGOTIATED, LacpStatus.CONFIGURED}
    assert not any(members(found).values())


def test_members_were_called_slaves_once() -> None:
    assert bonds.parse_bonds(recorded("written/bond-show-2.13.txt")) == (
        bond("bond0", "active-backup", LacpStatus.OFF, eth0=ENABLED, eth1=ACTIVE),
    )


def test_threads_that_poll_have_their_counters() -> None:
    first, second = pmd.parse_pmds(recorded("written/pmd-perf-show-3.3.txt"))
    assert (first.numa, first.core, second.numa, second.core) == (0, 1, 1, 13)
    assert first.counters["busy iterations"] == 86009
    assert (first.counters["Rx packets"], first.counters["Lost upcalls"]) == (2399607, 1)
    assert second.counters == {"Iterations": 0}
    assert pmd.parse_pmds("") == ()


def test_threads_that_poll_have_their_queues() -> None:
    first, second = pmd.parse_queues(recorded("written/pmd-rxq-show-3.3.txt"))
    assert (first.numa, first.core, first.isolated, first.overhead) == (0, 1, False, 4)
    busy, off = first.queues
    assert busy == RxQueue("dpdk0", 0, enabled=True, usage=37)
    assert off == RxQueue("vhu5a3c1f-22", 1, enabled=False, usage=0)
    assert second == PmdQueues(1, 13, isolated=True, overhead=None, queues=())
    (real,) = pmd.parse_queues(recorded("3.1.0/pmd-rxq-show.txt"))
    assert [one.usage for one in real.queues] == [None, None]
    assert pmd.parse_queues("") == ()


@of_every_version
def test_threads_that_poll_are_read_of_a_real_switch(version: str) -> None:
    (found,) = pmd.parse_pmds(recorded(f"{version}/pmd-perf-show.txt"))
    assert found.numa == 0
    assert found.counters["Iterations"] > 0
    assert (found.counters["Rx packets"], found.counters["busy iterations"]) == (0, 0)


@of_every_version
def test_datapaths_and_upcalls_are_read_of_a_real_switch(version: str) -> None:
    text = recorded(f"{version}/dpctl-show.txt")
    (datapath,) = datapaths.parse_datapaths(text)
    assert datapath.name == "netdev@ovs-netdev"
    assert datapath.ports == text.count("  port ") > 5
    (upcalls,) = datapaths.parse_upcalls(recorded(f"{version}/upcall-show.txt"))
    assert (upcalls.datapath, upcalls.dump_duration_ms > 0) == ("netdev@ovs-netdev", True)
    assert upcalls.limit > upcalls.maximum


@of_every_version
def test_mac_addresses_of_a_bridge_are_read(version: str) -> None:
    given, learned = "fa:16:3e:00:00:02", "fa:16:3e:00:00:03"
    found = bridges.parse_macs(recorded(f"{version}/fdb-show.txt"))
    assert set(found) >= {MacEntry(1, 7, given, None), MacEntry(1, 0, given, None)}
    (age,) = (one.age for one in found if (one.ofport, one.vlan, one.mac) == (2, 9, learned))
    assert age is not None
    counted = bridges.parse_mac_counters(recorded(f"{version}/fdb-stats-show.txt"))
    assert counted["Current/maximum MAC entries in the table"] == len(found)
    assert counted["Total number of evicted MAC entries"] == 0
    assert bridges.parse_macs(" port  VLAN  MAC\nLOCAL     0  fa:16:3e:00:00:02    7\n") == (
        MacEntry(65534, 0, given, 7),
    )


@of_every_version
def test_bridges_have_their_ports_in_the_datapath(version: str) -> None:
    found = {one.name: one for one in bridges.parse_dpif(recorded(f"{version}/dpif-show.txt"))}
    assert found.keys() == {"br-ex", "br-int"}
    assert {one.datapath for one in found.values()} == {"netdev@ovs-netdev"}
    assert found["br-ex"].ports == (
        PortOfDatapath("br-ex", 65534, 2, "tap"),
        PortOfDatapath("e0", 2, 6, "system"),
        PortOfDatapath("patch-ex", 1, None, "patch", "peer=patch-int"),
    )
    assert found["br-int"].ports[-1] == PortOfDatapath("vx0", 4, 5, "vxlan", "remote_ip=192.0.2.9")


def test_bridges_of_two_datapaths_are_read() -> None:
    text = (
        "netdev@ovs-netdev: hit:1 missed:2\n  br-a:\n    br-a 65534/1: (tap)\n"
        "system@ovs-system: hit:3 missed:4\n  br-b:\n  br-c:\n    p 1/2: (internal)\n"
    )
    assert bridges.parse_dpif(text) == (
        BridgeOfDatapath(
            "br-a", "netdev@ovs-netdev", 1, 2, (PortOfDatapath("br-a", 65534, 1, "tap"),)
        ),
        BridgeOfDatapath("br-b", "system@ovs-system", 3, 4),
        BridgeOfDatapath(
            "br-c", "system@ovs-system", 3, 4, (PortOfDatapath("p", 1, 2, "internal"),)
        ),
    )


def test_datapaths_in_user_space_and_in_the_kernel_are_read() -> None:
    assert datapaths.parse_datapaths(recorded("3.1.0/dpctl-show.txt")) == (
        Datapath("netdev@ovs-netdev", hits=109, missed=39, lost=0, flows=5, ports=16),
    )
    assert datapaths.parse_datapaths(recorded("written/dpctl-show-kernel-3.3.txt")) == (
        Datapath("system@ovs-system", 1263, 151, 7, 8, ports=3, mask_hits=3276, masks=4),
        Datapath("netdev@ovs-netdev", 1, 2, 3, 4, ports=1),
    )


def test_upcalls_are_read() -> None:
    assert datapaths.parse_upcalls(recorded("3.1.0/upcall-show.txt")) == (
        Upcalls("netdev@ovs-netdev", 5, 38, 38000, 1),
    )


def test_coverage_has_totals() -> None:
    found = counters.parse_coverage(recorded("3.1.0/coverage-show.txt"))
    assert found["bridge_reconfigure"] > 0
    assert len(found) == recorded("3.1.0/coverage-show.txt").count("total:")


def test_memory_has_what_is_counted() -> None:
    assert counters.parse_memory(recorded("3.1.0/memory-show.txt")) == {
        "handlers": 1,
        "idl-cells-Open_vSwitch": 832,
        "ofconns": 3,
        "ports": 15,
        "revalidators": 1,
        "rules": 401,
        "udpif keys": 5,
    }
    found = counters.parse_memory(recorded("3.1.0/controller-memory-show.txt"))
    assert found["lflow-cache-size-KB"] == 5


def test_stopwatches_have_their_times() -> None:
    assert controller.parse_stopwatches(recorded("3.1.0/stopwatch-show.txt")) == (
        Stopwatch("bfd-run", 18, 1, 1.0, 0.009227),
        Stopwatch("flow-generation", 18, 1, 1.0, 0.009801),
        Stopwatch("vif-plug-run", 0, 0, 0.0, 0.0),
    )


def test_zones_engine_and_cache_of_ovn_controller_are_read() -> None:
    zones = controller.parse_zones(recorded("3.1.0/ct-zone-list.txt"))
    network = "34853ec3-c5b3-427a-bb74-d3b941800c1f"
    assert zones == {"lp1": 1, "lp2": 4, f"{network}_dnat": 3, f"{network}_snat": 2}
    text = recorded("3.1.0/engine-show-stats.txt")
    engine = {one.name: one for one in controller.parse_engine(text)}
    assert len(engine) == text.count("Node: ")
    assert engine["logical_flow_output"] == EngineNode("logical_flow_output", 1, 7, 0)
    renamed = text.replace("- abort: ", "- cancel:")  # since 23.06
    assert controller.parse_engine(renamed) == tuple(engine.values())
    cache = controller.parse_lflow_cache(recorded("3.1.0/lflow-cache-show-stats.txt"))
    assert (cache["total"], cache["cache-matches"], cache["Mem usage (KB)"]) == (61, 60, 5)


def test_bindings_are_read_with_and_without_a_logical_port() -> None:
    assert controller.parse_local_bindings(recorded("3.1.0/local-bindings.txt")) == (
        LocalBinding("lp1", "tap1", 1),
        LocalBinding("gone", "tap2", 0),
    )
    orphan = "Local bindings:\nname: [a], OVS interface name : [NULL], num binding lports : [1]\n"
    assert controller.parse_local_bindings(orphan) == (LocalBinding("a", "", 1),)


def test_binding_of_a_localport_is_distinguished_from_others() -> None:
    line = "name: [{0}], OVS interface name : [{0}], num binding lports : [1]\n{1} : [{0}]\n---\n"
    text = "".join(line.format(*one) for one in (("a", "primary lport"), ("b", "localport lport")))
    assert controller.parse_local_bindings(f"Local bindings:\n{text}") == (
        LocalBinding("a", "a", 1),
        LocalBinding("b", "b", 1, is_localport=True),
    )


@pytest.mark.parametrize(
    "parse",
    [
        bonds.parse_bonds,
        datapaths.parse_datapaths,
        datapaths.parse_upcalls,
        controller.parse_local_bindings,
        controller.parse_stopwatches,
        controller.parse_engine,
        bridges.parse_macs,
        bridges.parse_dpif,
    ],
)
def test_empty_text_gives_no_entries(parse: Callable[[str], object]) -> None:
    assert parse("") == ()


def test_states_of_the_controller_are_read() -> None:
    assert controller.parse_connected("connected\n")
    assert not controller.parse_connected("not connected\n")
    assert controller.parse_paused("paused\n")
    assert not controller.parse_paused("running\n")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (controller.parse_connected, "perhaps"),
        (controller.parse_paused, ""),
        (bonds.parse_bonds, "no bond here"),
        (bonds.parse_bonds, "---- bond0 ----\nlacp_status: off\n"),
        (bonds.parse_bonds, "---- bond0 ----\nbond_mode: balance-tcp\nlacp_status: odd\n"),
        (datapaths.parse_datapaths, "system@ovs-system:\n  flows: 8\n"),
        (datapaths.parse_datapaths, "ovs-system\n"),
        (bridges.parse_dpif, "  br-int:\n"),
        (datapaths.parse_upcalls, "system@ovs-system:\n  nothing\n"),
        (datapaths.parse_datapaths, f"system@ovs-system:\n  flows: {'9' * 5000}\n"),
        (parse_trace, ""),
        (parse_trace, "Flow: in_port=1\n 0. priority 0\n    drop\n"),
    ],
)
def test_text_with_an_impossible_value_is_refused(
    parse: Callable[[str], object], text: str
) -> None:
    with pytest.raises(SwitchError) as failed:
        parse(text)
    assert failed.value.fault is ProducerFault.MALFORMED


LONG = "9" * 5000
"""More digits than Python makes a number of."""


@pytest.mark.parametrize(
    ("parse", "text", "found"),
    [
        (counters.parse_coverage, f"netlink_sent 0.0/sec total: {LONG}\n", {}),
        (counters.parse_memory, f"handlers:{LONG}\n", {}),
        (
            controller.parse_local_bindings,
            f"name: [a], OVS interface name : [b], num binding lports : [{LONG}]\n",
            (),
        ),
    ],
)
def test_number_that_is_too_long_is_passed_over(
    parse: Callable[[str], object], text: str, found: object
) -> None:
    assert parse(text) == found


PARSERS: list[tuple[Callable[[str], object], str]] = [
    (bonds.parse_bonds, "3.1.0/cut-bond-show.txt"),
    (datapaths.parse_datapaths, "written/dpctl-show-kernel-3.3.txt"),
    (pmd.parse_pmds, "written/pmd-perf-show-3.3.txt"),
    (pmd.parse_queues, "written/pmd-rxq-show-3.3.txt"),
    (datapaths.parse_upcalls, "3.1.0/upcall-show.txt"),
    (counters.parse_coverage, "3.1.0/coverage-show.txt"),
    (counters.parse_memory, "3.1.0/memory-show.txt"),
    (controller.parse_local_bindings, "3.1.0/local-bindings.txt"),
    (controller.parse_stopwatches, "3.1.0/stopwatch-show.txt"),
    (controller.parse_zones, "3.1.0/ct-zone-list.txt"),
    (controller.parse_engine, "3.1.0/engine-show-stats.txt"),
    (controller.parse_lflow_cache, "3.1.0/lflow-cache-show-stats.txt"),
    (bridges.parse_macs, "3.7.1/fdb-show.txt"),
    (bridges.parse_mac_counters, "3.7.1/fdb-stats-show.txt"),
    (bridges.parse_dpif, "3.7.1/dpif-show.txt"),
    (parse_trace, "3.1.0/trace-tunnel.txt"),
]


@pytest.mark.parametrize(("parse", "name"), PARSERS)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_text_is_read_or_refused(
    parse: Callable[[str], object], name: str, data: st.DataObject
) -> None:
    text = recorded(name)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    damaged = text[:start] + data.draw(st.text(max_size=20)) + text[end:]
    with suppress(SwitchError):
        parse(damaged)
