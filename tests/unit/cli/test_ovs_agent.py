"""Flags and environment of the OVS agent."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.cli.ovs_agent import OVSAgentFlags
from hypercobalt.errors import ConfigurationError
from hypercobalt.launch import decode_settings, encode_settings
from hypercobalt.ovs_agent.settings import OVSAgentSettings


def test_defaults_are_those_of_the_documentation() -> None:
    found = OVSAgentFlags().settings({}, "kvm-a")
    assert (found.node, found.namespace) == ("kvm-a", "ovn-system")
    assert found.paths.ovs == Path("/run/openvswitch")
    assert found.paths.ovn == Path("/run/ovn")
    assert found.counters == timedelta(minutes=5)


def test_flag_goes_before_environment_before_host_name() -> None:
    env = {"NODE_NAME": "n", "NAMESPACE": "x", "OVS_RUNDIR": "/a", "OVN_RUNDIR": "/b"}
    found = OVSAgentFlags(namespace="y", ovn_rundir=Path("/c")).settings(env, "h")
    assert (found.node, found.namespace) == ("n", "y")
    assert (found.ovs_rundir, found.ovn_rundir) == (Path("/a"), Path("/c"))


def test_settings_pass_to_the_agents_process_as_they_are() -> None:
    found = OVSAgentFlags(counters=60, host_root=Path("/host")).settings({}, "h")
    assert decode_settings(encode_settings(found), OVSAgentSettings) == found


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"counters": 5}, "--counters 5"),
        ({"southbound_probe": 0.5}, "--southbound-probe 0.5"),
        ({"southbound_probe": -1}, "--southbound-probe -1"),
        ({"counters": float("nan")}, "--counters nan"),
        ({"counters": float("inf")}, "--counters inf"),
        ({"southbound_probe": float("nan")}, "--southbound-probe nan"),
        ({"southbound_probe": float("inf")}, "--southbound-probe inf"),
    ],
)
def test_time_out_of_bounds_is_refused(flags: dict[str, float], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        OVSAgentFlags(**flags).settings({}, "h")  # type: ignore[arg-type]
