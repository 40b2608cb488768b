"""Names of Nodes and of namespaces, as Kubernetes takes them.

A flag with another name is refused at the start: every call about it would fail for as long as the
process runs.

Source: k8s.io/apimachinery, pkg/util/validation, IsDNS1123Subdomain and IsDNS1123Label.
"""

from __future__ import annotations

import re
from typing import Final

from hypercobalt.errors import ConfigurationError

_LABEL: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NODE: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_NAMESPACE: Final = re.compile(_LABEL, re.ASCII)
_SHOWN: Final = 64


def node_name(given_as: str, text: str) -> str:
    """The name of a Node.

    Args:
        given_as: flag or variable, for the message.
        text: what is given.

    Raises:
        ConfigurationError: no Node can have it.
    """
    return _checked(given_as, text, _NODE, 253, "a Node: lower-case letters, digits, `-` and `.`")


def namespace_name(given_as: str, text: str) -> str:
    """The name of a namespace; arguments and errors are those of `node_name`."""
    what = "a namespace: lower-case letters, digits and `-`"
    return _checked(given_as, text, _NAMESPACE, 63, what)


def _checked(given_as: str, text: str, pattern: re.Pattern[str], longest: int, what: str) -> str:
    if len(text) > longest or not pattern.fullmatch(text):
        raise ConfigurationError(
            f"{given_as} {text[:_SHOWN]!r}: must be the name of {what}, at most {longest} "
            "characters"
        )
    return text
