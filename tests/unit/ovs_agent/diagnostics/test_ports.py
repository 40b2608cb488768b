"""A port's report has all that is known of it; what cannot be read is named, not left out."""

from __future__ import annotations

import pytest
from tests.unit.ovs_agent.diagnostics.networks import facts, lport, rows, switch, vm
from tests.unit.ovs_agent.switches import NOW, bond, database, interface, mirrored

from hypercobalt.adapters.ovs.model import DaemonName
from hypercobalt.adapters.ovs.rows import MirrorRow
from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.api.ovsnode import IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.cli.ports import details
from hypercobalt.ovs_agent.diagnostics import ports as reporting
from hypercobalt.ovs_agent.diagnostics.ports import ports
from hypercobalt.ovs_agent.diagnostics.report import PortFlow, PortReport
from hypercobalt.ovs_agent.rules.findings import Finding
from hypercobalt.ovs_agent.rules.issues import Tracked


def issue(code: IssueCode, object_: str) -> Tracked:
    return Tracked(Finding(code, object_, IssueSeverity.WARNING, "x"), NOW, 0.0, is_issue=True)


async def test_port_of_an_instance_has_its_issues_counters_and_flows() -> None:
    fake = switch()
    fake.interface_statistics = {"i-tap1": {"rx_packets": 7, "tx_dropped": 1}}
    issues = [
        issue(IssueCode.PORT_SILENTLY_DEAD, "tap1"),
        issue(IssueCode.DUPLICATE_IFACE_ID, lport(1)),
        issue(IssueCode.PORT_ERROR, "tap2"),
    ]
    found = await ports(fake, facts(), issues, {"port": vm(1)})
    assert found.ports == (
        PortReport(
            name="tap1",
            bridge="br-int",
            ofport=2,
            admin_up=True,
            link_up=True,
            mtu=1500,
            iface_id=lport(1),
            instance=vm(1),
            installed=True,
            counters={"rx_packets": 7, "tx_dropped": 1},
            flows=(PortFlow(100, "0x72fd84cb", 5),),
            issues=("PortSilentlyDead", "DuplicateIfaceID"),
        ),
    )
    assert found.notes == ()


async def test_all_ports_come_by_bridge_and_name() -> None:
    found = await ports(switch(), facts(), (), {})
    assert [(one.bridge, one.name, one.type) for one in found.ports] == [
        ("br-ex", "br-ex", "internal"),
        ("br-ex", "eth0", "system"),
        ("br-int", "br-int", "internal"),
        ("br-int", "ovn-kvm-2-0", "geneve"),
        ("br-int", "patch-br-int-to-ln", "patch"),
        *(("br-int", f"tap{number}", "system") for number in (1, 2, 3)),
    ]
    assert [one.remote for one in found.ports[3:5]] == ["192.0.2.2", "patch-ln"]
    assert found.ports[1].flows is None  # of OVN's bridge alone
    assert found.ports[6].flows == ()


async def test_a_member_of_a_bond_has_the_bonds_issues() -> None:
    fake, rows_ = switch(), database({"br-ex": [bond("bond0", interface("eth0"), interface("e1"))]})
    issues = [issue(IssueCode.MEMBER_DOWN, "bond0/eth0")]
    found = {one.name: one for one in (await ports(fake, facts(rows_), issues, {})).ports}
    assert (found["eth0"].bond, found["eth0"].issues) == ("bond0", ("MemberDown",))
    assert found["e1"].issues == ()


async def test_a_port_of_vhost_user_shows_its_socket_as_it_has_no_device() -> None:
    status = {"mode": "client", "socket": "/run/vhu1", "status": "disconnected", "features": "0x0"}
    vhost = interface("vhu1", 7, type="dpdkvhostuserclient", status=status)
    (found,) = (
        await ports(switch(), facts(database({"br-int": [vhost]})), (), {"port": "vhu1"})
    ).ports
    assert found.status == status
    shown = [line for line in details(found) if line.startswith("driver")]
    assert shown == ["driver        mode client, status disconnected, socket /run/vhu1"]


async def test_a_mirrored_port_shows_where_its_packets_are_copied_to() -> None:
    found = mirrored(
        rows(),
        "br-int",
        MirrorRow("m1", "a", select_src_port=("p-tap1",), output_port="p-tap3"),
        MirrorRow("m2", "b", select_all=True, output_vlan=7),
        MirrorRow("m3", "c", select_dst_port=("p-tap1",)),  # its output is gone
    )
    shown = {
        one.name: one.mirrored_to for one in (await ports(switch(), facts(found), (), {})).ports
    }
    assert (shown["tap1"], shown["tap2"], shown["eth0"]) == (("VLAN 7", "tap3"), ("VLAN 7",), ())


async def test_an_unknown_port_is_refused() -> None:
    with pytest.raises(RefusedUseError, match="port 'nope' is not a port of this host"):
        await ports(switch(), facts(), (), {"port": "nope"})


@pytest.mark.parametrize(
    ("away", "note"),
    [
        (DaemonName.OVSDB_SERVER, "counters are missing"),
        (DaemonName.VSWITCHD, "flows of table 0 are missing"),
    ],
)
async def test_value_that_cannot_be_read_is_a_note(away: DaemonName, note: str) -> None:
    fake = switch()
    fake.fail(away)
    found = await ports(fake, facts(), (), {})
    assert len(found.ports) == len(rows().interfaces)
    assert [one.partition(":")[0] for one in found.notes] == [note]


async def test_too_many_flows_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "MOST_FLOWS", 0)
    found = await ports(switch(), facts(), (), {})
    assert [one.partition(":")[0] for one in found.notes] == ["flows of table 0 are missing"]
