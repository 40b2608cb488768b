"""Names and values as Kubernetes takes them.

Source: k8s.io/apimachinery, pkg/util/validation; k8s.io/kubernetes, pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253


def is_label(text: str) -> bool:
    """Whether it is a DNS label (RFC 1123), such as the name of a namespace."""
    return len(text) <= _LONGEST_LABEL and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether it is a DNS subdomain (RFC 1123), such as the name of most objects."""
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Whether it is the key of a label: a name, with a subdomain and a slash before it or not."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return len(name) <= _LONGEST_LABEL and _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Whether it is the value of a label; it may be empty."""
    return not text or (len(text) <= _LONGEST_LABEL and _NAME.fullmatch(text) is not None)


def is_address(text: str) -> bool:
    """Whether it is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text
