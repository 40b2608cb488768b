"""The devices that a document binds to a host, and when they are refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import hypervisor, node

from hypercobalt.adapters.fencing.devices import Device, parse
from hypercobalt.adapters.fencing.fake import FakeFenceDevice
from hypercobalt.adapters.fencing.port import (
    Credentials,
    Cuts,
    FenceDevice,
    FenceError,
    FenceFailure,
    PowerState,
)
from hypercobalt.api.core import Node, NodeSystemInfo, Secret
from hypercobalt.api.fencing import FenceDeviceIdentity
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.leadership import unguarded
from hypercobalt.errors import ConfigurationError
from hypercobalt.ha.host_failure.facts import FenceSetup
from hypercobalt.operator.ha.devices.fences import switch_off
from hypercobalt.operator.ha.devices.template_fences import TemplateFences, connections
from hypercobalt.runtime import Kube

S = timedelta(seconds=1)
BMC_PORT = "node-restriction.kubernetes.io/bmc-port"
DOCUMENT = """
devices:
- name: bmc
  agent: fence_redfish
  hosts: {kvm-a: {ip: 192.0.2.1}, kvm-b: {ip: 192.0.2.2}}
  secret: bmc-{name}
"""
BY_LABEL = f"""
devices:
- name: bmc
  agent: fence_redfish
  parameters: {{ip: 192.0.2.1, ipport: "{{labels[{BMC_PORT}]}}"}}
  values: {{{BMC_PORT}: ["7001", "7002", "7003"]}}
"""
UUID = "11111111-0000-4000-8000-000000000001"
OTHERS = "22222222-0000-4000-8000-000000000002"


class Secrets:
    """An API server with one Secret."""

    def __init__(self, data: dict[str, bytes] | None) -> None:
        self._data = data

    async def get(self, _type: type[Secret], name: str, namespace: str) -> Secret | None:
        assert (name, namespace) == ("bmc-kvm-a", "fencing")
        return Secret(data=self._data) if self._data is not None else None


@dataclass
class Hosts:
    """Hypervisors, found by the connections of their devices."""

    document: str
    hypervisors: dict[str, Hypervisor]

    def get(self, name: str) -> Hypervisor | None:
        return self.hypervisors.get(name)

    def all(self) -> Iterable[Hypervisor]:
        return self.hypervisors.values()

    def at(self, connection: str) -> Iterable[Hypervisor]:
        of = connections(parse(self.document))
        return [one for one in self.all() if connection in of(one)]


class Site:
    """A document, hosts, and a device in memory at each address that is opened."""

    def __init__(self, document: str = DOCUMENT, *hosts: Hypervisor) -> None:
        self.known = Hosts(document, {one.metadata.name: one for one in hosts})
        self.devices: dict[str, FakeFenceDevice] = {}
        self.given: list[Credentials] = []
        secrets = cast("Kube", Secrets({"username": b"ops", "password": b"secret"}))
        self.fences = TemplateFences(parse(document), secrets, "fencing", self._open, self.known)

    def _open(self, device: Device, credentials: Credentials) -> FenceDevice:
        self.given.append(credentials)
        return self.at(device.title)

    def at(self, title: str) -> FakeFenceDevice:
        return self.devices.setdefault(title, FakeFenceDevice(title))


def host(name: str, **labels: str) -> Node:
    made = node(labels=labels)
    return replace(made, metadata=replace(made.metadata, name=name))


def labelled(name: str, port: str, *records: FenceDeviceIdentity, uuid: str = "") -> Hypervisor:
    made = hypervisor()
    meta = replace(made.metadata, name=name, labels={BMC_PORT: port} if port else {})
    status = replace(made.status, fenceDevices=records, hostUUID=uuid or None)
    return replace(made, metadata=meta, status=status)


async def test_devices_of_a_host_have_their_credentials_from_its_secret() -> None:
    site = Site()
    found = site.fences.setup(host("kvm-a"))
    assert found.power.devices == "bmc 192.0.2.1"
    assert found.power.lasts == 100 * S  # and to read the power before and after
    ((device, within),) = await site.fences.devices(host("kvm-a"), Cuts.POWER)
    assert (device.name, within, site.given[0].username) == ("bmc 192.0.2.1", 60 * S, "ops")


async def test_missing_secret_is_named() -> None:
    site = Site()
    missing = cast("Kube", Secrets(None))
    fences = TemplateFences(
        parse(DOCUMENT), missing, "fencing", lambda *_: FakeFenceDevice(), site.known
    )
    with pytest.raises(ConfigurationError, match="Secret fencing/bmc-kvm-a does not exist"):
        await fences.devices(host("kvm-a"), Cuts.POWER)


def test_host_that_no_template_fits_cannot_be_fenced() -> None:
    assert "has no label" in Site(BY_LABEL).fences.setup(host("kvm-a")).problem
    assert "no template" in Site().fences.setup(host("kvm-c")).problem
    assert FenceSetup(problem="none").power.lasts == timedelta(0)


async def test_devices_of_one_kind_are_given_by_it() -> None:
    site = Site(
        """
devices:
- {name: bmc, agent: fence_redfish, parameters: {ip: "{name}.bmc.example.com"}}
- {name: san, agent: fence_brocade, cuts: storage, parameters: {ip: sw, plug: "{name}"},
   timeoutSeconds: 9}
"""
    )
    setup = site.fences.setup(host("kvm-a"))
    assert (setup.storage.devices, setup.storage.lasts) == ("san sw", 49 * S)
    assert setup.power.devices == "bmc kvm-a.bmc.example.com"
    ((device, within),) = await site.fences.devices(host("kvm-a"), Cuts.STORAGE)
    assert (device.name, within) == ("san sw", 9 * S)


@pytest.mark.parametrize(
    ("ways", "devices"),
    [
        (("", ""), "bmc 192.0.2.9, pdu 192.0.2.8"),
        (("bmc", "pdu"), "bmc 192.0.2.9 or pdu 192.0.2.8"),
    ],
    ids=["needed together", "alternatives"],
)
def test_attempt_lasts_as_long_as_all_devices_of_the_host_may(
    ways: tuple[str, str], devices: str
) -> None:
    bmc, pdu = (f", alternative: {way}" if way else "" for way in ways)
    site = Site(
        f"""
devices:
- {{name: bmc, agent: fence_redfish, hosts: {{kvm-a: {{ip: 192.0.2.9}}}}, timeoutSeconds: 30{bmc}}}
- {{name: pdu, agent: fence_apc, hosts: {{kvm-a: {{ip: 192.0.2.8}}}}, timeoutSeconds: 10{pdu}}}
"""
    )
    power = site.fences.setup(host("kvm-a")).power
    assert power.lasts == (30 + 60 + 10 + 60) * S
    assert power.devices == devices


async def test_host_whose_document_leaves_open_what_is_needed_together_is_not_fenced() -> None:
    site = Site(
        """
devices:
- {name: bmc, agent: fence_redfish, hosts: {kvm-a: {ip: 192.0.2.9}}}
- {name: pdu, agent: fence_apc_snmp, hosts: {kvm-a: {ip: 192.0.2.8}}, alternative: pdu}
"""
    )
    assert "devices of kvm-a: bmc has no alternative" in site.fences.setup(host("kvm-a")).problem
    with pytest.raises(ConfigurationError, match="bmc has no alternative"):
        await site.fences.devices(host("kvm-a"), Cuts.POWER)


SHARED = """
devices:
- name: bmc
  agent: fence_redfish
  hosts: {kvm-a: {ip: 192.0.2.1}, kvm-b: {ip: "::ffff:192.0.2.1", ipport: "443"}}
"""


@pytest.mark.parametrize("name", ["kvm-a", "kvm-b"])
@pytest.mark.parametrize("other_is_there", [True, False])
async def test_two_hosts_with_one_device_are_both_refused(name: str, other_is_there: bool) -> None:
    known = ("kvm-a", "kvm-b") if other_is_there else (name,)
    site = Site(SHARED, *(labelled(one, "") for one in known))
    assert "hosts kvm-a and kvm-b have the same" in site.fences.setup(host(name)).problem
    with pytest.raises(ConfigurationError, match="hosts kvm-a and kvm-b"):
        await site.fences.devices(host(name), Cuts.POWER)
    assert site.devices == {}


async def test_label_of_another_hosts_device_refuses_both() -> None:
    site = Site(BY_LABEL, labelled("kvm-a", "7001"), labelled("kvm-c", "7003"))
    assert not site.fences.setup(host("kvm-a", **{BMC_PORT: "7001"})).problem
    taken = host("kvm-a", **{BMC_PORT: "7003"})
    assert "hosts kvm-a and kvm-c" in site.fences.setup(taken).problem
    with pytest.raises(ConfigurationError, match="hosts kvm-a and kvm-c"):
        await site.fences.devices(taken, Cuts.POWER)
    site.known.hypervisors["kvm-a"] = labelled("kvm-a", "7003")
    assert "hosts kvm-a and kvm-c" in site.fences.setup(host("kvm-c", **{BMC_PORT: "7003"})).problem
    assert set(site.fences.sharers(site.known.hypervisors["kvm-a"])) == {"kvm-a", "kvm-c"}
    assert site.given == []


async def test_label_that_leads_elsewhere_is_given_no_password() -> None:
    site = Site(BY_LABEL)
    listener = host("kvm-a", **{BMC_PORT: "9999"})
    assert "which is not one of" in site.fences.setup(listener).problem
    with pytest.raises(ConfigurationError, match="which is not one of"):
        await site.fences.devices(listener, Cuts.POWER)
    assert site.given == []


def record(uuid: str, *, proven: bool = True) -> FenceDeviceIdentity:
    problem = None if proven else "bmc 192.0.2.1 reports another UUID"
    return FenceDeviceIdentity(
        device="bmc 192.0.2.1", systemUUID=uuid, proven=proven, problem=problem
    )


async def attempt(site: Site, state: PowerState, uuid: str = UUID) -> tuple[bool, str]:
    """Fence kvm-a, whose kubelet has reported a UUID, by a device that reports a state."""
    found = host("kvm-a")
    info = NodeSystemInfo(systemUUID=uuid)
    found = replace(found, status=replace(found.status, nodeInfo=info))
    site.at("bmc 192.0.2.1").state = state
    devices = await site.fences.devices(found, Cuts.POWER)
    answer = await switch_off(devices, Cuts.POWER, 10 * S, unguarded)
    return answer.off, answer.text


@pytest.mark.parametrize("state", PowerState)
async def test_device_of_another_host_is_neither_ordered_nor_believed(state: PowerState) -> None:
    site = Site(DOCUMENT, labelled("kvm-a", ""))
    site.at("bmc 192.0.2.1").uuids = frozenset({OTHERS})
    off, text = await attempt(site, state)
    assert not off
    assert f"reports the UUID {OTHERS}, and the host {UUID}" in text
    assert site.at("bmc 192.0.2.1").orders == []


async def test_device_that_proves_whose_it_is_is_ordered() -> None:
    site = Site(DOCUMENT, labelled("kvm-a", "", record(UUID)))
    site.at("bmc 192.0.2.1").uuids = frozenset({UUID})
    off, _ = await attempt(site, PowerState.ON, uuid=OTHERS)  # whatever the host reports by now
    assert off
    assert site.at("bmc 192.0.2.1").orders == [PowerState.OFF]


async def test_host_that_claims_anothers_uuid_takes_nothing_from_it() -> None:
    victim = labelled("kvm-a", "", record(UUID), uuid=UUID)
    site = Site(DOCUMENT, victim, labelled("kvm-b", "", uuid=UUID))
    site.at("bmc 192.0.2.1").uuids = frozenset({UUID})
    assert not site.fences.setup(host("kvm-a")).problem
    assert await attempt(site, PowerState.ON) == (
        True,
        "bmc 192.0.2.1 has switched the power off and reports it off",
    )


async def test_host_whose_device_was_another_hosts_is_refused_before_it_fails() -> None:
    site = Site(DOCUMENT, labelled("kvm-a", "", record(OTHERS, proven=False)))
    assert site.fences.setup(host("kvm-a")).problem == "bmc 192.0.2.1 reports another UUID"
    site.at("bmc 192.0.2.1").uuids = frozenset({UUID})
    off, text = await attempt(site, PowerState.ON)
    assert (off, "not used: bmc 192.0.2.1 reports another UUID" in text) == (False, True)


class Unreadable(FakeFenceDevice):
    """A device that switches, and does not tell whose it is."""

    async def systems(self, *, within: timedelta) -> frozenset[str]:
        raise FenceError("bmc: UUID: 404", FenceFailure.FAILED)


@pytest.mark.parametrize(
    ("identity", "known", "off"),
    [
        ("optional", False, True),
        ("optional", True, False),
        ("required", False, False),
        ("ignored", True, True),
    ],
)
async def test_site_decides_of_a_device_that_proves_nothing(
    identity: str, known: bool, off: bool
) -> None:
    records = [record(UUID)] if known else []
    document = f"{DOCUMENT}  identity: {identity}\n"
    site = Site(document, labelled("kvm-a", "", *records))
    site.devices["bmc 192.0.2.1"] = Unreadable("bmc 192.0.2.1")
    assert (await attempt(site, PowerState.ON))[0] is off
