"""Facts about a silent host, and the same with changes, for tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace as with_fields
from tests.records import recorded
from tests.unit.operator.samples import condition

from hypercobalt.api.fencing import Fencing
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.ha.host_failure.doubts import LatestReports, PowerReport
from hypercobalt.ha.host_failure.facts import FenceSetup, HostFacts, Means
from hypercobalt.ha.host_failure.node_failure import Alive, Dead, Suspected

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
BMC = Means("192.0.2.9", timedelta(minutes=2))
SILENT = ("silent",)
IN_ORDER = ("NodeHealthy", "AgentReporting", "LibVirtConnection")

DEAD = HostFacts(
    hypervisor=Hypervisor(metadata=ObjectMeta(name="kvm-a"), status=HypervisorStatus(bootID="b1")),
    verdict=Dead(SILENT),
    latest=LatestReports("b1"),
    gates=(),
    fence=FenceSetup(power=BMC),
    stopped="",
    asserted="",
    mine=None,
    now=NOW,
)


def but(
    facts: HostFacts,
    *,
    boot: str | None = None,
    node_boot: str | None = None,
    dead: bool = True,
    silent: bool = True,
    power: Means | None = None,
    storage: Means | None = None,
    setup: str | None = None,
    unconfirmed: Fencing | None = None,
    stopped: str | None = None,
    asserted: str | None = None,
    mine: datetime | None = None,
    later: timedelta = timedelta(0),
) -> HostFacts:
    """Return the facts with other values of what is named.

    Args:
        facts: of a silent host.
        boot: of the node agent; "" for none.
        node_boot: of the kubelet; "" for none.
        dead: its waits are over.
        silent: nothing of it answers.
        power: devices that switch its power.
        storage: devices that cut it off from its storage.
        setup: version of the devices.
        unconfirmed: the record of the proof that its device no longer confirms.
        stopped: evidence that its agent has ended all instances.
        asserted: who asserts that it is dead.
        mine: deadline of this process's attempt.
        later: how much later that is.
    """
    hypervisor, fence, latest = facts.hypervisor, facts.fence, facts.latest
    if boot is not None:
        hypervisor = with_fields(
            hypervisor, status=with_fields(hypervisor.status, bootID=boot or None)
        )
    if unconfirmed is not None:
        status = with_fields(hypervisor.status, fencing=unconfirmed)
        hypervisor = recorded(with_fields(hypervisor, status=status))
    verdict = facts.verdict if dead else Suspected(SILENT)
    return replace(
        facts,
        hypervisor=hypervisor,
        verdict=verdict if silent else Alive(SILENT),
        latest=replace(
            latest,
            node_boot=latest.node_boot if node_boot is None else node_boot,
            power=latest.power if unconfirmed is None else PowerReport.UNKNOWN,
        ),
        fence=replace(
            fence,
            power=fence.power if power is None else power,
            storage=fence.storage if storage is None else storage,
            version=fence.version if setup is None else setup,
        ),
        stopped=facts.stopped if stopped is None else stopped,
        asserted=facts.asserted if asserted is None else asserted,
        mine=facts.mine if mine is None else mine,
        now=facts.now + later,
    )


def in_order(facts: HostFacts, *running: str, since: datetime = NOW) -> HostFacts:
    """Return the facts of the host once Node, agent and libvirt are in order, with its guests."""
    status = with_fields(
        facts.hypervisor.status,
        conditions=tuple(
            with_fields(condition(type_, "True"), lastTransitionTime=since) for type_ in IN_ORDER
        ),
        instances=tuple(Instance(id=name, name=name, active=True) for name in running),
    )
    return replace(facts, hypervisor=with_fields(facts.hypervisor, status=status))
