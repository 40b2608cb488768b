"""What ovn-controller was started with, from a `/proc` made for the test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypercobalt.adapters.ovs.model import ControllerStart, TlsFiles
from hypercobalt.adapters.ovs.startup import controller_start, file_system

PID = 7
FILES = TlsFiles("/pki/key", "/pki/cert", "/pki/ca")
COMMANDS: dict[str, tuple[str, ControllerStart]] = {
    "no options": ("unix:/run/db.sock --pidfile --detach", ControllerStart()),
    "short options, joined and apart": (
        "-n kvm-7 -p/pki/key -c /pki/cert -C /pki/ca",
        ControllerStart("kvm-7", FILES),
    ),
    "long options, with = and apart": (
        "--private-key=/pki/key --certificate /pki/cert --ca-cert=/pki/ca",
        ControllerStart("", FILES),
    ),
    "an authority that is fetched first": (
        "-p /pki/key -c /pki/cert --bootstrap-ca-cert=/pki/ca",
        ControllerStart("", FILES),
    ),
    "the last of a name": ("-n first -n last", ControllerStart("last")),
    "a value that looks like an option": ("-n -p", ControllerStart("-p")),
    "a value that is missing": ("-p", ControllerStart()),
    "what follows the options": ("-- -n other", ControllerStart()),
}


def process(folder: Path, command: str, environment: str = "") -> Path:
    proc = folder / "proc"
    (proc / str(PID)).mkdir(parents=True)
    words = ["ovn-controller", *command.split()]
    (proc / str(PID) / "cmdline").write_text("".join(f"{word}\0" for word in words))
    (proc / str(PID) / "environ").write_text(environment)
    return proc


@pytest.mark.parametrize("case", COMMANDS)
def test_start_of_ovn_controller_is_read_from_its_command_line(tmp_path: Path, case: str) -> None:
    command, expected = COMMANDS[case]
    assert controller_start(process(tmp_path, command), PID) == expected


@pytest.mark.parametrize(
    ("folder", "environment"), [("etc", ""), ("ovn", "PATH=/bin\0OVN_SYSCONFDIR=/ovn\0")]
)
def test_file_overrides_the_name_of_the_chassis(
    tmp_path: Path, folder: str, environment: str
) -> None:
    proc = process(tmp_path, "", environment)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "system-id-override").write_text("kvm-8\nmore\n")
    assert controller_start(proc, PID).chassis == "kvm-8"


def test_option_goes_before_the_file(tmp_path: Path) -> None:
    proc = process(tmp_path, "-n kvm-9")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/system-id-override").write_text("kvm-8")
    assert controller_start(proc, PID).chassis == "kvm-9"


def test_files_of_a_container_are_read_there(tmp_path: Path) -> None:
    proc = process(tmp_path, "")
    inside = proc / str(PID) / "root"
    (inside / "etc").mkdir(parents=True)
    (inside / "etc/system-id-override").write_bytes(b"kvm-\xff" + b"x" * 100)
    assert file_system(proc, PID) == inside
    assert controller_start(proc, PID).chassis == "kvm-\ufffd" + "x" * 58


def test_pipe_in_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    proc = process(tmp_path, "")
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/system-id-override")
    assert controller_start(proc, PID).chassis == ""


def test_process_that_is_gone_has_nothing(tmp_path: Path) -> None:
    assert controller_start(tmp_path / "proc", PID) == ControllerStart()
