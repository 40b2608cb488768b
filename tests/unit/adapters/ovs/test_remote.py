"""Text of Open vSwitch's database that names a server or a file is an error, never a crash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.model import Paths
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.remote import Remote, parse_remotes
from hypercobalt.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "remotes"),
    [
        ("tcp:192.0.2.1:6642", (Remote("tcp", "192.0.2.1", 6642),)),
        (
            "ssl:[2001:db8::1]:6642, unix:/run/ovn/sb.sock",
            (Remote("ssl", "2001:db8::1", 6642), Remote("unix", "/run/ovn/sb.sock")),
        ),
    ],
)
def test_remotes_are_read_as_ovn_writes_them(text: str, remotes: tuple[Remote, ...]) -> None:
    assert parse_remotes(text) == remotes


@pytest.mark.parametrize(
    "text",
    ["", "tcp:192.0.2.1", "tcp:192.0.2.1:66420", f"tcp:h:{'9' * 5000}", "tcp:h:\u0663", "unix:a"],
)
def test_remote_of_another_form_is_refused_with_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match="must look like"):
        parse_remotes(text)


@pytest.mark.parametrize(
    ("remote", "fault"),
    [
        ("tcp:192.0.2.1:66420", ProducerFault.UNSUPPORTED),
        ("tcp:a..b:6642", ProducerFault.CLOSED),
        (f"tcp:{'x' * 64}:6642", ProducerFault.CLOSED),
        ("tcp:a\0b:6642", ProducerFault.CLOSED),
        (f"unix:/{'x' * 200}", ProducerFault.CLOSED),
    ],
)
async def test_server_that_cannot_be_named_is_a_fault(
    tmp_path: Path, remote: str, fault: ProducerFault
) -> None:
    with pytest.raises(SwitchError) as failed:
        await HostSwitch(Paths(tmp_path, tmp_path, tmp_path)).southbound(remote, "kvm-1")
    assert failed.value.fault is fault
    assert len(str(failed.value)) < 500


@given(st.text(max_size=40))
def test_no_text_is_more_than_an_error(text: str) -> None:
    try:
        for remote in parse_remotes(f"tcp:{text}:1,ssl:h:{text}"):
            assert 0 <= remote.port <= 65535
    except ConfigurationError:
        return


@pytest.mark.parametrize("bridge", ["../x", "/x", "a/b"])
async def test_bridge_with_a_path_for_a_name_has_no_socket(tmp_path: Path, bridge: str) -> None:
    # Open vSwitch makes no bridge of such a name, but its database takes one.
    rundir = tmp_path / "run"
    rundir.mkdir()
    os.mkfifo(tmp_path / "x.mgmt")
    with pytest.raises(SwitchError, match="no bridge has this name") as failed:
        await HostSwitch(Paths(rundir, rundir, tmp_path)).flows(bridge, 0, limit=1)
    assert failed.value.fault is ProducerFault.SOCKET_MISSING
