"""What the daemons print is read; what they would never print is refused or passed over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypercobalt.adapters.ovs.model import (
    BondMember,
    BondState,
    Datapath,
    LacpStatus,
    LocalBinding,
    Stopwatch,
    Upcalls,
)
from hypercobalt.adapters.ovs.port import Fault, SwitchError
from hypercobalt.adapters.ovs.text import bonds, controller, counters, datapaths, pmd
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


def test_healthy_bonds_of_each_mode() -> None:
    off, negotiated = LacpStatus.OFF, LacpStatus.NEGOTIATED
    assert bonds.parse_bonds(recorded("3.1.0/healthy-bond-show.txt")) == (
        bond("bond-tcp", "balance-tcp", negotiated, p0=ENABLED, p1=ACTIVE),
        bond("bond-slb", "balance-slb", off, p4=ENABLED, p5=ACTIVE),
        bond(
            "bond-silent",
            "active-backup",
            LacpStatus.CONFIGURED,
            fallback=True,
            p6=ENABLED,
            p7=ACTIVE,
        ),
        bond("bond-ab", "active-backup", off, p2=ENABLED, p3=ACTIVE),
        bond("bond-tor", "balance-tcp", negotiated, q0=ENABLED, q1=ACTIVE),
    )


def test_a_cable_that_is_cut_disables_its_member() -> None:
    found = {one.name: one for one in bonds.parse_bonds(recorded("3.1.0/cut-bond-show.txt"))}
    assert found["bond-tcp"].members == (
        BondMember("p0", enabled=False),
        BondMember("p1", enabled=True, active=True),
    )


def test_a_bond_without_any_carrier() -> None:
    found = {one.name: one for one in bonds.parse_bonds(recorded("3.1.0/broken-bond-show.txt"))}
    off = (BondMember("p4", enabled=False), BondMember("p5", enabled=False))
    assert found["bond-slb"].members == off
    assert found["bond-tcp"].lacp is LacpStatus.CONFIGURED


def test_lacp_counts_as_negotiated_for_a_while_although_no_partner_has_answered() -> None:
    """Why members count and `lacp_status` alone does not."""
    (found,) = bonds.parse_bonds(recorded("3.1.0/silent-bond-show.txt"))
    assert found.lacp is LacpStatus.NEGOTIATED
    assert not any(member.enabled for member in found.members)


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


def test_datapaths_in_user_space_and_in_the_kernel() -> None:
    assert datapaths.parse_datapaths(recorded("3.1.0/dpctl-show.txt")) == (
        Datapath("netdev@ovs-netdev", hits=109, missed=39, lost=0, flows=5, ports=16),
    )
    assert datapaths.parse_datapaths(recorded("written/dpctl-show-kernel-3.3.txt")) == (
        Datapath("system@ovs-system", 1263, 151, 7, 8, ports=3, mask_hits=3276, masks=4),
        Datapath("netdev@ovs-netdev", 1, 2, 3, 4, ports=1),
    )


def test_upcalls() -> None:
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


def test_bindings_with_and_without_a_logical_port() -> None:
    assert controller.parse_local_bindings(recorded("3.1.0/local-bindings.txt")) == (
        LocalBinding("lp1", "tap1", 1),
        LocalBinding("gone", "tap2", 0),
    )
    orphan = "Local bindings:\nname: [a], OVS interface name : [NULL], num binding lports : [1]\n"
    assert controller.parse_local_bindings(orphan) == (LocalBinding("a", "", 1),)


@pytest.mark.parametrize(
    "parse",
    [
        bonds.parse_bonds,
        datapaths.parse_datapaths,
        datapaths.parse_upcalls,
        controller.parse_local_bindings,
        controller.parse_stopwatches,
    ],
)
def test_nothing_is_nothing(parse: Callable[[str], object]) -> None:
    assert parse("") == ()


def test_states_of_the_controller() -> None:
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
        (datapaths.parse_upcalls, "system@ovs-system:\n  nothing\n"),
        (datapaths.parse_datapaths, f"system@ovs-system:\n  flows: {'9' * 5000}\n"),
        (parse_trace, ""),
        (parse_trace, "Flow: in_port=1\n 0. priority 0\n    drop\n"),
    ],
)
def test_what_cannot_be_meant_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(SwitchError) as failed:
        parse(text)
    assert failed.value.fault is Fault.MALFORMED


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
    (datapaths.parse_upcalls, "3.1.0/upcall-show.txt"),
    (counters.parse_coverage, "3.1.0/coverage-show.txt"),
    (counters.parse_memory, "3.1.0/memory-show.txt"),
    (controller.parse_local_bindings, "3.1.0/local-bindings.txt"),
    (controller.parse_stopwatches, "3.1.0/stopwatch-show.txt"),
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
