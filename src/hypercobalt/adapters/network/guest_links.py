"""Names and addresses of what connects a guest within its pod, and settings of the pod's kernel.

Source: KubeVirt, pkg/network/setup and pkg/network/dhcp; ip-sysctl of the kernel's documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ETH0: Final = "eth0"
"""The pod's NIC, as its runtime has made it."""
BRIDGE: Final = "k6t-eth0"
"""Joins the guest's tap to the pod; the launcher answers DHCP on it."""
TAP: Final = "tap0"

KERNEL: Final[Mapping[str, int]] = {
    # The launcher has no rights, and answers DHCP on port 67.
    "net.ipv4.ip_unprivileged_port_start": 67,
    # A guest reaches the pod by IPv4 alone, where there are rules.
    f"net.ipv6.conf.{BRIDGE}.disable_ipv6": 1,
}
