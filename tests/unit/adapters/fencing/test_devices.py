from __future__ import annotations

import pytest

from hypercobalt.adapters.fencing import devices
from hypercobalt.adapters.fencing.devices import Device, Identity
from hypercobalt.adapters.fencing.port import Credentials, Cuts
from hypercobalt.errors import ConfigurationError

GUARDED = "node-restriction.kubernetes.io"
DOCUMENT = f"""
devices:
- name: bmc
  agent: fence_redfish
  parameters: {{systems_uri: "/redfish/v1/Systems/{{name}}"}}
  hosts:
    kvm-1: {{ip: 192.0.2.7}}
    kvm-3: {{ip: 192.0.2.9, ipport: "8443"}}
  secret: bmc-{{name}}
  timeoutSeconds: 30
  identity: required
- name: pdu
  agent: fence_apc_snmp
  nodes: {{{GUARDED}/pdu: a}}
  parameters: {{ip: pdu.example.com, plug: "{{labels[{GUARDED}/outlet]}}"}}
  values: {{{GUARDED}/outlet: ["4", "5"]}}
"""
SAN = "- {name: san, agent: fence_brocade, cuts: storage, parameters: {ip: sw, plug: '{name}'}}\n"
LABELS = {f"{GUARDED}/pdu": "a", f"{GUARDED}/outlet": "4"}


def test_a_host_gets_the_devices_that_the_document_binds_to_it_in_its_order() -> None:
    templates = devices.parse(DOCUMENT)
    bmc, pdu = devices.resolve(templates, "kvm-1", LABELS)
    assert (bmc.title, bmc.secret, bmc.timeout.seconds) == ("bmc 192.0.2.7", "bmc-kvm-1", 30)
    assert (bmc.parameters["systems_uri"], bmc.identity) == (
        "/redfish/v1/Systems/kvm-1",
        Identity.REQUIRED,
    )
    assert pdu.parameters["plug"] == "4"
    other = devices.resolve(templates, "kvm-2", LABELS | {f"{GUARDED}/outlet": "5"})
    assert [device.name for device in other] == ["pdu"]
    (third,) = devices.resolve(templates, "kvm-3", {})
    assert third.parameters["ipport"] == "8443"
    assert devices.named_in(templates) == {"kvm-1", "kvm-3"}


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ("nodes: {example.com/vendor: a}", "nodes.example.com/vendor"),
        ('parameters: {ip: "{labels[lab.cobalt/bmc]}"}', "parameters.ip"),
        ('parameters: {ip: a, ipport: "{labels[lab.cobalt/bmc-port]}"}', "parameters.ipport"),
        ('parameters: {plug: "{labels[topology.kubernetes.io/zone]}"}', "parameters.plug"),
        ('hosts: {kvm-1: {systems_uri: "{labels[a]}"}}', "hosts.kvm-1.systems_uri"),
        ('secret: "{labels[a/b]}"', "secret"),
        ('parameters: {ip: "{labels[xnode-restriction.kubernetes.io/a]}"}', "parameters.ip"),
        ('parameters: {ip: "{labels[node-restriction.kubernetes.io]}"}', "parameters.ip"),
    ],
)
def test_what_a_kubelet_may_write_binds_no_device(template: str, field: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        devices.parse(f"devices: [{{name: bmc, agent: fence_x, {template}}}]")
    assert field in str(refused.value)
    assert "below hosts" in str(refused.value)


@pytest.mark.parametrize("prefix", [GUARDED, f"example.com.{GUARDED}"])
def test_a_guarded_label_gives_the_values_that_the_document_lists(prefix: str) -> None:
    label = f"{prefix}/bmc"
    one = f'name: bmc, agent: fence_x, parameters: {{ip: "{{labels[{label}]}}"}}'
    with pytest.raises(ConfigurationError, match=f"parameters.ip .*values.{label}"):
        devices.parse(f"devices: [{{{one}}}]")
    templates = devices.parse(f"devices: [{{{one}, values: {{{label}: [192.0.2.1]}}}}]")
    (device,) = devices.resolve(templates, "kvm-1", {label: "192.0.2.1"})
    assert device.parameters == {"ip": "192.0.2.1"}
    with pytest.raises(ConfigurationError, match=f"{label}=203.0.113.9, which is not one of"):
        devices.resolve(templates, "kvm-1", {label: "203.0.113.9"})


@pytest.mark.parametrize(
    ("address", "node", "problem"),
    [
        ("bmc-{name}", "kvm-1", ""),
        ("bmc-{name}", "kvm-1.evil.example", "domain of Node"),
        ("{name}.bmc.example.com", "kvm-1.evil.example", ""),
        ("{name}", "kvm-1", ""),
        ("{name}", "167772163", "a number"),
        ("{name}", "0x0a000003", "a number"),
        ("10.0.0.{name}", "3", "a number"),
        ("[fe80::{name}]", "1", "a number"),
        ("user@{name}.example.com", "kvm-1", "neither an address"),
        ("{name}/x", "kvm-1", "neither an address"),
        ("{name} -f x", "kvm-1", "neither an address"),
        ("[2001:db8::1]", "kvm-1", ""),
    ],
)
def test_a_nodes_name_leads_to_no_address_of_its_own_choice(
    address: str, node: str, problem: str
) -> None:
    one = f'{{name: bmc, agent: fence_x, parameters: {{ip: "{address}"}}}}'
    templates = devices.parse(f"devices: [{one}]")
    if not problem:
        assert devices.resolve(templates, node, {})
        return
    with pytest.raises(ConfigurationError, match=problem):
        devices.resolve(templates, node, {})


def test_a_device_switches_the_power_unless_it_cuts_the_host_off_from_its_storage() -> None:
    found = devices.resolve(devices.parse(DOCUMENT + SAN), "kvm-1", LABELS)
    assert [one.cuts for one in found] == [Cuts.POWER, Cuts.POWER, Cuts.STORAGE]


FEED = "- {{name: {0}, agent: fence_apc, parameters: {{ip: {0}}}{1}}}\n"


def test_devices_are_alternatives_only_where_the_document_has_it() -> None:
    both = devices.parse("devices:\n" + FEED.format("a", "") + FEED.format("b", ""))
    assert [one.alternative for one in devices.resolve(both, "kvm-1", {})] == ["", ""]
    named = "devices:\n" + FEED.format("a", ", alternative: pdu") + SAN
    with_bmc = devices.parse(named + FEED.format("bmc", ", alternative: bmc"))
    ways = [one.alternative for one in devices.resolve(with_bmc, "kvm-1", {})]
    assert ways == ["pdu", "", "bmc"]


def test_device_beside_alternatives_has_to_name_its_own() -> None:
    document = "devices:\n" + FEED.format("a", ", alternative: pdu") + SAN + FEED.format("bmc", "")
    found = devices.resolve(devices.parse(document), "kvm-1", {})
    assert devices.undecided(found).startswith("bmc has no alternative, and other power devices")
    assert not devices.undecided(found[:2])
    assert not devices.undecided(found[1:])


def test_a_label_that_a_node_lacks_is_named() -> None:
    with pytest.raises(ConfigurationError, match=f"pdu: Node kvm-1 has no label {GUARDED}/outlet"):
        devices.resolve(devices.parse(DOCUMENT), "kvm-1", {f"{GUARDED}/pdu": "a"})


def test_a_document_without_devices_gives_none() -> None:
    assert devices.parse("") == ()
    assert devices.labels_of(()) == ()


def test_labels_that_devices_are_found_by_are_named_once() -> None:
    templates = devices.parse(f"{DOCUMENT}  secret: pdu-{{labels[{GUARDED}/outlet]}}\n")
    assert devices.labels_of(templates) == (f"{GUARDED}/pdu", f"{GUARDED}/outlet")


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
        ("devices: [{name: a, agent: fence_x, parameters: {Password-Script: x}}]", "Secret"),
        ("devices: [{name: a, agent: fence_x, parameters: {port-as-ip: '1'}}]", "port-as-ip"),
        ("devices: [{name: a, agent: fence_x, parameters: {ip: a, ipaddr: b}}]", "ipaddr"),
        ("devices: [{name: a, agent: fence_x, hosts: {k: {action: reboot}}}]", "hosts.k.action"),
        ("devices: [{name: a, agent: fence_x, parameters: {ssl_insecure: '0'}}]", "leave it out"),
        ("devices: [{name: a, agent: fence_apc, certificateAuthority: x}]", "does not read it"),
        (
            "devices: [{name: a, agent: fence_redfish, certificateAuthority: x, "
            "parameters: {ssl_insecure: '1'}}]",
            "no effect with ssl_insecure",
        ),
        (
            "devices: [{name: a, agent: fence_x, cuts: storage, alternative: b}]",
            "each path to the storage has to be cut",
        ),
        ("devices: [", "fence devices"),
    ],
)
def test_a_wrong_document_is_refused_by_the_field(document: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        devices.parse(document)


def test_a_value_of_two_lines_is_given_to_no_agent() -> None:
    two = 'devices: [{name: a, agent: fence_x, parameters: {plug: "x\\naction=on"}}]'
    with pytest.raises(ConfigurationError, match="line break"):
        devices.resolve(devices.parse(two), "kvm-1", {})


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
