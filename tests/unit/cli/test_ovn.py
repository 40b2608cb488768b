"""The page shows a bridge as the command prints it."""

from __future__ import annotations

from tests.pages import ROOT

from hypercobalt.cli.ovn import bridge_lines
from hypercobalt.ovs_agent.diagnostics.report import BridgePort, BridgeReport, LearnedMac

REPORT = BridgeReport(
    name="br-ex",
    datapath="system@ovs-system",
    hits=48210,
    missed=311,
    ports=(
        BridgePort("br-ex", 65534, "internal", 2),
        BridgePort("eth1", 1, "system", 4),
        BridgePort("patch-ln", 2, "patch", None, "peer=patch-br-int-to-ln"),
    ),
    macs=(LearnedMac("fa:16:3e:00:00:02", 7, "eth1", 5),),
    macs_total=1,
    mac_counters={
        "Current/maximum MAC entries in the table": 1,
        "Total number of evicted MAC entries": 0,
    },
)


def test_page_shows_a_bridge_as_it_looks() -> None:
    page = (ROOT / "docs/ovs-agent.md").read_text()
    shown = "\n".join(("$ cobalt bridges kvm-1 br-ex", *bridge_lines(REPORT)))
    assert f"```console\n{shown}\n```" in page
