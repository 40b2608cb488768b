"""Which changes of OVSNodes lead to a pass over their host, and what the cache of a fleet costs."""

from __future__ import annotations

from tests.unit.operator.network.switch import NAMESPACE, SILENT, switch
from tests.unit.operator.samples import NOW, condition, hypervisor

from hypercobalt.api.ovsnode_glance import OVSNodeGlance
from hypercobalt.operator.network.switches import Switches
from hypercobalt.runtime import Kube, ListResult, Metrics
from hypercobalt.runtime.client.watch import Change, WatchEvent

GREEN = condition("NetworkHealthy", "True", "Healthy")


class Server(Kube):
    """Receives no call: the tests load the cache themselves."""

    def __init__(self) -> None:
        """Connect to nothing."""


class World:
    def __init__(self, *there: OVSNodeGlance) -> None:
        self.switches = Switches(
            Server(), NAMESPACE, "br-int", Metrics(), known=lambda: ["kvm-a", "kvm-b"]
        )
        self.judged, self.spoke = list[str](), list[str]()
        self.switches.judged.watch.attach(self.judged.append)
        self.switches.spoke.watch.attach(self.spoke.append)
        self.switches.informer.load(ListResult(list(there), "1", {}))

    def changes(self, new: OVSNodeGlance, change: Change = Change.MODIFIED) -> None:
        self.judged.clear()
        self.spoke.clear()
        key = f"{NAMESPACE}/{new.metadata.name}"
        self.switches.informer.take(WatchEvent(change, key, new.metadata.resourceVersion, new))


def test_new_ovsnode_is_judged_and_its_agents_lease_looked_at() -> None:
    world = World(switch())
    assert (world.judged, world.spoke) == (["kvm-a"], ["kvm-a"])


def test_counters_lead_to_no_pass() -> None:
    world = World(switch())
    world.changes(switch(version="2"))
    assert (world.judged, world.spoke) == ([], [])


def test_change_that_keeps_the_verdict_leads_to_no_pass() -> None:
    world = World(switch())
    world.changes(switch({"FlowsInSync": ("Unknown", "NotMeasurable")}, version="2"))
    assert (world.judged, world.spoke) == ([], [])


def test_broken_bridge_leads_to_a_pass_over_the_host() -> None:
    world = World(switch())
    world.changes(switch(bridges={"br-int": "Down"}, version="2"))
    assert (world.judged, world.spoke) == (["kvm-a"], [])
    (found,) = world.switches.condition(hypervisor(), NOW)
    assert (found.status, found.reason) == ("False", "BridgeDown")


def test_silence_and_its_end_lead_to_a_pass_over_both() -> None:
    world = World(switch())
    for number, given in enumerate((SILENT, None), 2):
        world.changes(switch(given, version=str(number)))
        assert (world.judged, world.spoke) == (["kvm-a"], ["kvm-a"])


def test_deleted_ovsnode_leads_to_a_pass_and_to_no_green_status() -> None:
    world = World(switch())
    world.changes(switch(version="2"), Change.DELETED)
    assert world.judged == ["kvm-a"]
    (found,) = world.switches.condition(hypervisor(GREEN), NOW)
    assert (found.status, found.reason) == ("Unknown", "NotReported")


def test_before_the_ovsnodes_are_known_a_condition_stays_as_it_is_stored() -> None:
    unread = Switches(Server(), NAMESPACE, "br-int", Metrics(), known=list)
    assert unread.condition(hypervisor(GREEN), NOW) == ()


def test_hosts_without_an_ovsnode_are_judged_once_the_ovsnodes_are_known() -> None:
    world = World(switch())
    world.judged.clear()
    world.switches.synced()
    assert sorted(world.judged) == ["kvm-a", "kvm-b"]
