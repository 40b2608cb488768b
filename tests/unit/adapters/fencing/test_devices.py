from __future__ import annotations

import pytest

from hypercobalt.adapters.fencing import devices
from hypercobalt.adapters.fencing.devices import Device
from hypercobalt.adapters.fencing.port import Credentials, Cuts
from hypercobalt.errors import ConfigurationError

DOCUMENT = """
devices:
- name: bmc
  agent: fence_redfish
  nodes: {vendor: a}
  parameters: {ip: "{labels[example.com/bmc]}", systems_uri: "/redfish/v1/Systems/{name}"}
  secret: bmc-{name}
  timeoutSeconds: 30
- name: pdu
  agent: fence_apc_snmp
  parameters: {ip: pdu.example.com, plug: "{labels[outlet]}"}
"""
SAN = """
- {name: san, agent: fence_brocade, cuts: storage, parameters: {ip: sw, plug: "{labels[outlet]}"}}
"""
LABELS = {"vendor": "a", "example.com/bmc": "192.0.2.7", "outlet": "4"}


def test_a_host_gets_the_devices_whose_labels_it_has_in_the_documents_order() -> None:
    templates = devices.parse(DOCUMENT)
    bmc, pdu = devices.resolve(templates, "kvm-1", LABELS)
    assert (bmc.title, bmc.secret, bmc.timeout.seconds) == ("bmc 192.0.2.7", "bmc-kvm-1", 30)
    assert bmc.parameters["systems_uri"] == "/redfish/v1/Systems/kvm-1"
    assert pdu.parameters["plug"] == "4"
    other = devices.resolve(templates, "kvm-2", {"vendor": "b", "outlet": "5"})
    assert [device.name for device in other] == ["pdu"]


def test_a_device_switches_the_power_unless_it_cuts_the_host_off_from_its_storage() -> None:
    found = devices.resolve(devices.parse(DOCUMENT + SAN), "kvm-1", LABELS)
    assert [one.cuts for one in found] == [Cuts.POWER, Cuts.POWER, Cuts.STORAGE]


def test_a_label_that_a_node_lacks_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"bmc: Node kvm-1 has no label example\.com/bmc"):
        devices.resolve(devices.parse(DOCUMENT), "kvm-1", {"vendor": "a", "outlet": "4"})


def test_a_document_without_devices_gives_none() -> None:
    assert devices.parse("") == ()
    assert devices.labels_of(()) == ()


def test_labels_that_devices_are_found_by_are_named_once() -> None:
    templates = devices.parse(DOCUMENT + "  secret: pdu-{labels[vendor]}\n")
    assert devices.labels_of(templates) == ("vendor", "example.com/bmc", "outlet")


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ("devices: [{name: a, agent: /bin/sh, parameters: {}}]", "agent"),
        ("devices: [{name: a, agent: fence_x, parameters: {}, colour: red}]", "colour"),
        ("devices: [{name: a, agent: fence_x, parameters: {}, cuts: network}]", "network"),
        ("devices: [{name: a, agent: fence_x, parameters: {password: x}}]", "Secret"),
        ("devices: [{name: a, agent: fence_x, parameters: {action: reboot}}]", "action"),
        ("devices: [{name: a, agent: fence_x, parameters: {method: cycle}}]", "method"),
        ("devices: [{name: a, agent: fence_x, parameters: {}, timeoutSeconds: 0}]", "timeout"),
        ("devices: [", "fence devices"),
    ],
)
def test_a_wrong_document_is_refused_by_the_field(document: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        devices.parse(document)


def test_a_label_cannot_bring_a_second_line_to_an_agent() -> None:
    with pytest.raises(ConfigurationError, match="line break"):
        devices.resolve(
            devices.parse(DOCUMENT), "kvm-1", LABELS | {"example.com/bmc": "x\naction=on"}
        )


def test_credentials_lose_the_end_of_line_that_editors_add() -> None:
    found = devices.credentials({"username": b"admin\n", "password": b"s3cret\r\n"})
    assert found == Credentials("admin", "s3cret")
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize("password", [b"a\nb", b"s3cret ", b"\xff"])
def test_a_password_that_no_agent_can_take_is_refused_unshown(password: bytes) -> None:
    with pytest.raises(ConfigurationError) as refused:
        devices.credentials({"password": password})
    assert password.decode(errors="replace") not in str(refused.value)


def test_a_device_without_an_address_is_shown_by_its_name() -> None:
    assert Device("iron", "fence_ironic", {}).title == "iron"
