"""Fields that a person leaves out of a packet are those that the instance would send."""

from __future__ import annotations

import pytest
from tests.unit.ovs_agent.diagnostics.networks import gateway, logical, mac

from hypercobalt.adapters.ovn.logical import LogicalPort
from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.ovs_agent.diagnostics.completing import Ends, completed

NEAR = Ends(logical(1), mac(1), logical(2))
FAR = Ends(logical(1), mac(1), logical(3, "net2"), (gateway(),))
OUT = Ends(logical(1), mac(1), None, (gateway(),))
PING = {"proto": "icmp", "eth_src": mac(1), "ip_src": "10.0.0.1"}


@pytest.mark.parametrize(
    ("given", "ends", "expected"),
    [
        ({}, NEAR, {**PING, "eth_dst": mac(2), "ip_dst": "10.0.0.2"}),
        ({}, FAR, {**PING, "eth_dst": "00:00:00:00:ff:01", "ip_dst": "10.0.0.3"}),
        (
            {"ip_dst": "8.8.8.8"},
            OUT,
            {**PING, "eth_dst": "00:00:00:00:ff:01", "ip_dst": "8.8.8.8"},
        ),
        (
            {"ip_src": "fd00::1"},
            NEAR,
            {**PING, "ip_src": "fd00::1", "eth_dst": mac(2), "ip_dst": "fd00::2"},
        ),
        (
            {"proto": "tcp", "dst_port": "80", "eth_src": mac(9), "ip_src": "10.0.0.9"},
            NEAR,
            {
                "proto": "tcp",
                "dst_port": "80",
                "eth_src": mac(9),
                "ip_src": "10.0.0.9",
                "eth_dst": mac(2),
                "ip_dst": "10.0.0.2",
            },
        ),
        (
            {"proto": "arp"},
            NEAR,
            {
                "proto": "arp",
                "eth_src": mac(1),
                "eth_dst": "ff:ff:ff:ff:ff:ff",
                "arp_sha": mac(1),
                "arp_spa": "10.0.0.1",
                "arp_tpa": "10.0.0.2",
            },
        ),
        ({"proto": "eth"}, NEAR, {"proto": "eth", "eth_src": mac(1), "eth_dst": mac(2)}),
        ({"eth_dst": mac(7)}, Ends(), {"eth_dst": mac(7)}),
        (
            {"eth_dst": mac(7), "ip_dst": "10.0.0.7"},
            Ends(source_mac=mac(1), unknown="away"),
            {"proto": "icmp", "eth_src": mac(1), "eth_dst": mac(7), "ip_dst": "10.0.0.7"},
        ),
    ],
)
def test_missing_fields_are_taken_from_both_ends(
    given: dict[str, str], ends: Ends, expected: dict[str, str]
) -> None:
    assert completed(given, ends) == expected


TWO = Ends(logical(1), mac(1), None, (gateway(), gateway("r2-net", "02", "10.0.0.253/24")))


@pytest.mark.parametrize(
    ("given", "ends", "message"),
    [
        ({}, Ends(logical(1)), "the destination is missing"),
        ({"ip_dst": "10.0.0.7"}, OUT, "10.0.0.7 is on the network that the packet comes from"),
        ({"ip_dst": "224.0.0.1"}, OUT, "multicast"),
        ({"ip_dst": "8.8.8.8"}, TWO, "several routers: r1-net 00:00:00:00:ff:01, r2-net"),
        ({"ip_dst": "8.8.8.8"}, Ends(logical(1)), "no router"),
        ({"ip_dst": "8.8.8.8"}, Ends(), "no logical port"),
        ({"ip_dst": "8.8.8.8"}, Ends(unknown="database away"), "looked up: database away"),
    ],
)
def test_a_packet_that_could_go_anywhere_is_refused(
    given: dict[str, str], ends: Ends, message: str
) -> None:
    with pytest.raises(RefusedUseError, match=message):
        completed(given, ends)


def test_invalid_addresses_are_skipped() -> None:
    odd = LogicalPort("lp", "net", ("unknown", "router dynamic", f"{mac(2)} 10.0.0.x"))
    assert completed({}, Ends(logical(1), "", odd))["eth_dst"] == mac(2)
