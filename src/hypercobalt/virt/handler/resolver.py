"""Servers of names that a pod uses, which its guest uses as well.

The file lies in the pod, whose launcher may have been broken into: no link of it is followed.

Source: resolv.conf(5); KubeVirt, pkg/network/dns.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 16 * 1024
_MOST_SERVERS: Final = 3  # MAXNS of resolv.h
_DOMAIN: Final = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63}){0,20}", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Resolver:
    """How names are resolved.

    Args:
        servers: of IPv4.
        domain: that names are looked up in, the longest of a search list; "" for none.
    """

    servers: tuple[str, ...] = ()
    domain: str = ""


def pod_resolver(root: Path) -> Resolver:
    """Read `etc/resolv.conf` below the root of a pod; nothing where there is none.

    Args:
        root: such as `/proc/1234/root`.
    """
    try:
        return parse_resolver(_content(root))
    except OSError:
        return Resolver()


def parse_resolver(text: str) -> Resolver:
    """Read the content of a resolv.conf; what is no address or no domain is skipped."""
    servers: list[str] = []
    domains: list[str] = []
    for line in text.splitlines():
        match line.split():
            case ["nameserver", address, *_] if len(servers) < _MOST_SERVERS and _is_ipv4(address):
                servers.append(address)
            case ["search" | "domain", *found]:
                domains = [one.rstrip(".") for one in found if _DOMAIN.fullmatch(one.rstrip("."))]
            case _:
                pass
    return Resolver(tuple(servers), max(domains, key=len, default=""))


def _content(root: Path) -> str:
    with ExitStack() as files:

        def opened(name: str, flags: int, directory: int | None = None) -> int:
            file = os.open(name, flags | os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
            files.callback(os.close, file)
            return file

        own = opened(str(root), os.O_DIRECTORY)
        etc = opened("etc", os.O_DIRECTORY | os.O_NOFOLLOW, own)
        file = opened("resolv.conf", os.O_NOFOLLOW | os.O_NONBLOCK, etc)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return ""
        return os.read(file, _MOST_BYTES).decode(errors="replace")


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True
