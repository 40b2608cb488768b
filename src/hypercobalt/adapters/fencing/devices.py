"""Which fence devices a host has: a document of templates, filled in for one Node.

    devices:
    - name: bmc
      agent: fence_redfish
      nodes: {example.com/vendor: a}                    # labels of the Nodes; without: every Node
      parameters: {ip: "{labels[example.com/bmc]}", ssl_insecure: "1"}
      secret: bmc-{name}                                # its keys: username, password
      timeoutSeconds: 60

The order of the templates is the order in which a host's devices are tried, those that cut it off
from its storage (`cuts: storage`) after those that switch its power.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final

import msgspec
import yaml

from hypercobalt.adapters.fencing.port import Credentials, Cuts
from hypercobalt.errors import ConfigurationError

_PLACE = re.compile(r"\{(?:(name)|labels\[([^\]{}]+)\])\}")
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
}


class DeviceTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One kind of fence device, for the hosts whose Nodes have the labels."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    agent: Annotated[str, msgspec.Meta(pattern=r"^fence_[a-z0-9_]+$")]
    parameters: dict[str, str]
    cuts: Cuts = Cuts.POWER
    nodes: dict[str, str] = {}
    secret: str = ""
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
    """

    name: str
    agent: str
    parameters: Mapping[str, str]
    secret: str = ""
    timeout: timedelta = timedelta(seconds=60)
    cuts: Cuts = Cuts.POWER

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
    for template in templates:
        for option in template.parameters:
            if why := _REFUSED.get(option):
                text = f"fence devices: {template.name}: parameters.{option} is refused: {why}"
                raise ConfigurationError(text)
    return templates


def labels_of(templates: Iterable[DeviceTemplate]) -> tuple[str, ...]:
    """Keys of the labels of Nodes by which templates are chosen and filled in."""
    return tuple(dict.fromkeys(key for one in templates for key in _keys(one)))


def _keys(template: DeviceTemplate) -> Iterator[str]:
    yield from template.nodes
    for text in (*template.parameters.values(), template.secret):
        yield from (place[2] for place in _PLACE.finditer(text) if place[2])


def resolve(
    templates: tuple[DeviceTemplate, ...], name: str, labels: Mapping[str, str]
) -> tuple[Device, ...]:
    """The fence devices of a host, in the order in which they are tried.

    Args:
        templates: of `parse`.
        name: of the Node.
        labels: of the Node.

    Raises:
        ConfigurationError: a template names a label that the Node has not.
    """
    return tuple(
        _filled(template, name, labels)
        for template in templates
        if template.nodes.items() <= labels.items()
    )


def _filled(template: DeviceTemplate, name: str, labels: Mapping[str, str]) -> Device:
    def value(place: re.Match[str]) -> str:
        if place[1]:
            return name
        if place[2] not in labels:
            text = f"fence device {template.name}: Node {name} has no label {place[2]}"
            raise ConfigurationError(text)
        return labels[place[2]]

    def fill(text: str) -> str:
        return _PLACE.sub(value, text)

    parameters = {option: _line(fill(text), option) for option, text in template.parameters.items()}
    timeout = timedelta(seconds=template.timeout_seconds)
    secret, cuts = fill(template.secret), template.cuts
    return Device(template.name, template.agent, parameters, secret, timeout, cuts)


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
