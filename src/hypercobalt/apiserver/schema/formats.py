"""The formats that a schema may require of a text.

Source: k8s.io/kube-openapi pkg/validation/strfmt, as far as structural schemas support it.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import datetime

from hypercobalt.api.duration import parse_nanoseconds


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            parse(value)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _date_time(value: str) -> bool:
    if not _DATE_TIME.fullmatch(value):
        return False
    return _parses(datetime.fromisoformat)(value[:19])


FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _date_time,
    "date": _parses(lambda v: datetime.strptime(v, "%Y-%m-%d")),  # noqa: DTZ007  # no zone in it
    "byte": _parses(lambda v: base64.b64decode(v, validate=True)),
    "uuid": _parses(uuid.UUID),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(lambda v: v.index("/") and ipaddress.ip_network(v, strict=False)),
    "duration": _parses(parse_nanoseconds),
}
