"""Which fence devices a host has: a document of templates that only an administrator writes.

    devices:
    - name: bmc
      agent: fence_redfish
      parameters: {systems_uri: /redfish/v1/Systems/1}
      hosts:                                            # by the names of the Nodes; without: all
        kvm-1: {ip: 192.0.2.1}                          # parameters of that host
        kvm-2: {ip: 192.0.2.2}
      secret: bmc-{name}                                # its keys: username, password
      identity: required
      timeoutSeconds: 60

All devices of a host that switch its power have to report it off: each may switch one of its feeds.
Where some of them suffice, `alternative` says so: those with the same name belong together, and the
ways are tried in the order of the templates. Devices that cut a host off from its storage
(`cuts: storage`) come after those that switch its power, and are needed together.

What a Node has to say counts only where its kubelet cannot write it (`bindings`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

import msgspec
import yaml

from hypercobalt.adapters.fencing import bindings
from hypercobalt.adapters.fencing.port import Credentials, Cuts
from hypercobalt.errors import ConfigurationError

_LINES = re.compile(r"[\r\n\0]")

_REFUSED: Final = {
    **dict.fromkeys(("action", "o"), "the operator decides what is done"),
    **dict.fromkeys(("method", "m"), "method cycle reports success before the host is off"),
    **dict.fromkeys(
        ("username", "login", "password", "passwd", "password_script", "passwd_script"),
        "credentials belong into the Secret, under username and password",
    ),
    **dict.fromkeys(("debug", "debug_file", "verbose"), "it would print the password"),
    "delay": "the deadline of an attempt does not include it",
    "port_as_ip": "it makes an address of the plug: write the address as ip",
}
_ALIASES: Final = {"ipaddr": "ip", "port": "plug"}  # fence agents take either
TRUE: Final = frozenset({"1", "yes", "on", "true"})
"""Values of an option that is on, as fence agents read them."""
_ADDRESS: Final = re.compile(r"[A-Za-z0-9_.:%\[\]-]+")


class Identity(StrEnum):
    """Whether a device has to prove whose it is, by the UUID of the system that it switches."""

    REQUIRED = "required"
    """A device that does not prove it is not used."""
    OPTIONAL = "optional"
    """A device that reports no UUID is used; one that reports another host's is not."""
    IGNORED = "ignored"
    """The UUID is not read: for devices that report a wrong one."""


class DeviceTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One kind of fence device, for the hosts that are named, or whose Nodes have the labels."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    agent: Annotated[str, msgspec.Meta(pattern=r"^fence_[a-z0-9_]+$")]
    parameters: dict[str, str] = {}
    hosts: dict[str, dict[str, str]] | None = None
    cuts: Cuts = Cuts.POWER
    alternative: str = ""
    nodes: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}
    secret: str = ""
    identity: Identity = Identity.OPTIONAL
    certificate_authority: str = ""
    timeout_seconds: Annotated[int, msgspec.Meta(ge=5, le=600)] = 60


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    devices: tuple[DeviceTemplate, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A fence device of one host.

    Args:
        name: of its template.
        agent: the program that speaks to it.
        parameters: its options, by their long names with underscores.
        secret: name of the Secret with its credentials; "" where it needs none.
        timeout: how long one attempt to switch the host off may take.
        cuts: what it cuts the host off from.
        identity: whether it has to prove whose it is.
        authority: certificates, in PEM, by which its own is verified; "" for the system's.
        alternative: the way to cut the host off that it belongs to, with all devices of that name.
    """

    name: str
    agent: str
    parameters: Mapping[str, str]
    secret: str = ""
    timeout: timedelta = timedelta(seconds=60)
    cuts: Cuts = Cuts.POWER
    identity: Identity = Identity.OPTIONAL
    authority: str = ""
    alternative: str = ""

    @property
    def title(self) -> str:
        """Name and address, for people: `bmc 10.0.0.7`."""
        return f"{self.name} {self.parameters.get('ip', '')}".rstrip()


def parse(document: str) -> tuple[DeviceTemplate, ...]:
    """The templates of a document in YAML.

    Raises:
        ConfigurationError: naming the field that is wrong.
    """
    try:
        templates = msgspec.convert(yaml.safe_load(document) or {}, _Document).devices
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        mark = getattr(error, "problem_mark", None)
        what = f"line {mark.line + 1} is not YAML" if mark else str(error)
        raise ConfigurationError(f"fence devices: {what}") from error
    return tuple(_checked(template) for template in templates)


def _checked(template: DeviceTemplate) -> DeviceTemplate:
    """A template that binds no device by what a kubelet may write, with the options' own names.

    Raises:
        ConfigurationError: naming the field that is wrong.
    """
    where = f"fence devices: {template.name}"
    hosts = template.hosts
    named = {
        f"hosts.{host}": _options(f"{where}: hosts.{host}", own)
        for host, own in (hosts or {}).items()
    }
    common = _options(f"{where}: parameters", template.parameters)
    if (why := bindings.fault(_texts(template), template.nodes, template.values)) is not None:
        raise ConfigurationError(f"{where}: {why}")
    if template.alternative and template.cuts is Cuts.STORAGE:
        text = "each path to the storage has to be cut, so there is no alternative to one"
        raise ConfigurationError(f"{where}: alternative is refused: {text}")
    if template.certificate_authority:
        _check_authority(where, template, common)
    own_names = None if hosts is None else {host: named[f"hosts.{host}"] for host in hosts}
    return msgspec.structs.replace(template, parameters=common, hosts=own_names)


def _options(where: str, given: Mapping[str, str]) -> dict[str, str]:
    """Options by the names that fence agents have for them.

    Raises:
        ConfigurationError: one is refused, or is there twice.
    """
    found: dict[str, str] = {}
    for option, text in given.items():
        plain = option.replace("-", "_").lower()
        name = _ALIASES.get(plain, plain)
        if why := _REFUSED.get(name):
            raise ConfigurationError(f"{where}.{option} is refused: {why}")
        if name == "ssl_insecure" and text.lower() not in TRUE:
            why = "agents take any value of it for yes; leave it out to have TLS verified"
            raise ConfigurationError(f"{where}.{option}: {text!r} is refused: {why}")
        if name in found:
            raise ConfigurationError(f"{where}.{option} is there twice, as {name}")
        found[name] = text
    return found


def _check_authority(where: str, template: DeviceTemplate, common: Mapping[str, str]) -> None:
    if template.agent != "fence_redfish":
        text = f"certificateAuthority is refused: {template.agent} does not read it"
        raise ConfigurationError(f"{where}: {text}")
    if any("ssl_insecure" in one for one in (common, *(template.hosts or {}).values())):
        text = "certificateAuthority has no effect with ssl_insecure: remove one of them"
        raise ConfigurationError(f"{where}: {text}")


def _texts(template: DeviceTemplate) -> Iterator[tuple[str, str]]:
    """What is filled in for a host, by its field."""
    for option, text in template.parameters.items():
        yield f"parameters.{option}", text
    for host, own in (template.hosts or {}).items():
        yield from ((f"hosts.{host}.{option}", text) for option, text in own.items())
    yield "secret", template.secret


def labels_of(templates: Iterable[DeviceTemplate]) -> tuple[str, ...]:
    """Keys of the labels of Nodes by which templates are chosen and filled in."""
    return tuple(dict.fromkeys(key for one in templates for key in _keys(one)))


def _keys(template: DeviceTemplate) -> Iterator[str]:
    yield from template.nodes
    for _, text in _texts(template):
        yield from bindings.labels_in(text)


def named_in(templates: Iterable[DeviceTemplate]) -> frozenset[str]:
    """The hosts that a document names."""
    return frozenset(host for one in templates for host in one.hosts or ())


def resolve(
    templates: tuple[DeviceTemplate, ...], name: str, labels: Mapping[str, str]
) -> tuple[Device, ...]:
    """The fence devices of a host, in the order in which they are tried.

    Args:
        templates: of `parse`.
        name: of the Node.
        labels: of the Node.

    Raises:
        ConfigurationError: a template takes a label that the Node has not, or a value of it that
            the document does not list.
    """
    return tuple(
        _filled(template, name, labels)
        for template in templates
        if template.nodes.items() <= labels.items()
        and (template.hosts is None or name in template.hosts)
    )


def undecided(found: Iterable[Device]) -> str:
    """Why it is open which power devices of a host are needed together; "" where it is not."""
    power = [one for one in found if one.cuts is Cuts.POWER]
    without = [one.name for one in power if not one.alternative]
    if not without or len(without) == len(power):
        return ""
    return (
        f"{', '.join(without)} has no alternative, and other power devices of the host have one: "
        "give each of them one; those that are needed together have the same"
    )


def _filled(template: DeviceTemplate, name: str, labels: Mapping[str, str]) -> Device:
    filling = bindings.Filling(template.name, name, labels, template.values)
    given = {**template.parameters, **(template.hosts or {}).get(name, {})}
    parameters = {option: _line(filling.fill(text), option) for option, text in given.items()}
    address = parameters.get("ip")
    if address is not None:
        if not _ADDRESS.fullmatch(address):
            text = f"ip {address!r} is neither an address nor the name of a host"
            raise ConfigurationError(f"fence device {template.name}: {text}")
        filling.check_address(given["ip"], address)
    timeout = timedelta(seconds=template.timeout_seconds)
    return Device(
        template.name,
        template.agent,
        parameters,
        filling.fill(template.secret),
        timeout,
        template.cuts,
        template.identity,
        template.certificate_authority,
        template.alternative,
    )


def credentials(secret: Mapping[str, bytes]) -> Credentials:
    """The credentials in a Secret's data; a line's end behind a value is no part of it.

    Raises:
        ConfigurationError: a value cannot be given to a fence agent. It is not shown.
    """

    def text(key: str) -> str:
        try:
            found = secret.get(key, b"").decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise ConfigurationError(f"fence device's Secret: {key} is not UTF-8") from None
        return _line(found, f"Secret's {key}")

    return Credentials(text("username"), text("password"))


def _line(value: str, about: str) -> str:
    """A value that is one line; fence agents read lines, and strip them."""
    if _LINES.search(value) or value != value.rstrip():
        raise ConfigurationError(
            f"fence device: {about} has a line break, or ends with a space: no agent can take it"
        )
    return value
