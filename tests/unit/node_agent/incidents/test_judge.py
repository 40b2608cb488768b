"""What a listing means, by the boot that was remembered and the present one."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.integration.runtime.scripted import eventually
from tests.unit.ha.signs import U1

from hypercobalt.adapters.libvirt.events import Lost
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.cases import Instance, State
from hypercobalt.ha.config import HaConfig
from hypercobalt.ha.signals import HOST
from hypercobalt.node_agent.incidents.journal import Journal
from hypercobalt.node_agent.incidents.judge import Judge
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.tasks import first


@pytest.mark.parametrize(
    ("remembered", "boot", "incident"),
    [
        ("b1", "b1", IncidentType.CRASH),
        ("b1", "b2", IncidentType.ENDED_BY_BOOT),
        ("", "b1", IncidentType.CRASH),
        ("b1", "", IncidentType.CRASH),
    ],
)
async def test_only_a_known_boot_can_be_another_one(
    tmp_path: Path, remembered: str, boot: str, incident: IncidentType
) -> None:
    store, libvirt = Store(), FakeLibvirt()
    store.put(Instance(uuid=U1, name="vm1", state=State.RUNNING, start="1.1", domain_id=1))
    store.put(Instance(uuid=HOST, start=remembered))
    crashed = Domain(U1, "vm1", False, DomainState.SHUTOFF, reason=ShutoffReason.CRASHED)
    libvirt.put(crashed)
    judge = Judge(
        libvirt,
        store,
        Journal(tmp_path),
        IncidentMetrics(CollectorRegistry()),
        clock=FakeClock(),
        boot=boot,
        config=HaConfig,
    )
    judge.on_event(Lost())
    await first(judge.run(), eventually(lambda: bool(store.get(U1).cases), seconds=1.5))
    assert [case.type for case in store.get(U1).cases] == [incident]
    assert store.host.start == (boot or remembered)
