"""What a template of fence devices may take from a Node: nothing that its kubelet may write. Pure.

A device that a host chooses for itself is another host's device, or a listener that is given the
password. So a template takes the Node's name, which the kubelet's certificate fixes, and labels
below `node-restriction.kubernetes.io/`, which a kubelet may not write. Of such a label it takes the
values that the document lists, and no other: a cluster may run without the admission plugin.

Source: Kubernetes, admission plugin NodeRestriction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hypercobalt.errors import ConfigurationError

GUARDED: Final = "node-restriction.kubernetes.io"
"""Prefix of the labels that a kubelet may not write; also `example.com.` and this."""

_PLACE: Final = re.compile(r"\{(?:(name)|labels\[([^\]{}]+)\])\}")
_PAGE: Final = 'docs/ha.md, "Fence devices"'


def is_guarded(label: str) -> bool:
    """Whether a kubelet may not write a label of its own Node."""
    prefix = label.partition("/")[0] if "/" in label else ""
    return prefix == GUARDED or prefix.endswith(f".{GUARDED}")


def labels_in(text: str) -> Iterator[str]:
    """Yield the keys of the labels whose values are filled into a text."""
    yield from (place[2] for place in _PLACE.finditer(text) if place[2])


def fault(
    texts: Iterable[tuple[str, str]], nodes: Iterable[str], values: Mapping[str, tuple[str, ...]]
) -> str | None:
    """Why a template must not be used, with the field and the way out; None where it may.

    Args:
        texts: what is filled in, by its field.
        nodes: keys of the labels by which hosts are chosen.
        values: those that may be filled in, by label.
    """
    for label in nodes:
        if not is_guarded(label):
            return (
                f"nodes.{label} is refused: a kubelet may write this label of its own Node, and so "
                "choose the device; name the hosts below hosts, or use a label below "
                f"{GUARDED}/ ({_PAGE})"
            )
    for field, text in texts:
        for label in labels_in(text):
            if not is_guarded(label):
                return (
                    f"{field} takes the label {label}, which a kubelet may write: refused; write "
                    "the value of each host below hosts, or take a label below "
                    f"{GUARDED}/ whose values are listed below values ({_PAGE})"
                )
            if not values.get(label):
                return (
                    f"{field} takes the label {label}, of which the document lists no value: "
                    f"refused; list the allowed ones in values.{label} ({_PAGE})"
                )
    return None


@dataclass(frozen=True, slots=True)
class Filling:
    """Fills in what a template takes from one Node.

    Args:
        template: name of it.
        node: name of the Node.
        labels: of the Node.
        values: of the labels, that the document lists.
    """

    template: str
    node: str
    labels: Mapping[str, str]
    values: Mapping[str, tuple[str, ...]]

    def fill(self, text: str) -> str:
        """Return the text with the Node's values in its places.

        Raises:
            ConfigurationError: the Node has no such label, or another value than is listed.
        """
        return _PLACE.sub(self._value, text)

    def _value(self, place: re.Match[str]) -> str:
        if place[1]:
            return self.node
        found = self.labels.get(place[2])
        if found is None:
            raise self._refused(f"Node {self.node} has no label {place[2]}")
        if found not in self.values.get(place[2], ()):
            text = f"Node {self.node} has the label {place[2]}={found}, which is not one of "
            raise self._refused(f"{text}values.{place[2]}")
        return found

    def check_address(self, template: str, address: str) -> None:
        """Refuse an address that the Node's name chooses: `bmc-{name}` of `a.evil.com`.

        Raises:
            ConfigurationError: its domain would be the Node's, or it is a number.
        """
        if "{name}" not in template:
            return
        last = address.rpartition(".")[2]
        way_out = f"write its address below hosts.{self.node}, or the domain behind {{name}}"
        if template.endswith("{name}") and "." in self.node:
            raise self._refused(
                f"ip {template} would be in the domain of Node {self.node}: {way_out}"
            )
        if ":" in address or last.isdecimal() or last.startswith("0x"):
            raise self._refused(f"ip {template} would be a number of Node {self.node}: {way_out}")

    def _refused(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"fence device {self.template}: {why}")
