from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hypercobalt.cli.lab_screen import (
    cloud_to_try,
    confirm_packages,
    fitting,
    preparation,
    things_to_try,
)
from hypercobalt.lab.vms.request import ListedVm

WIDTHS = {"NODE": 5, "VERSION": 30, "HARDWARE": 10, "KERNEL": 10, "AGE": 3}


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (66, set[str]()),
        (65, {"HARDWARE"}),
        (53, {"HARDWARE", "KERNEL"}),
        (41, {"HARDWARE", "KERNEL", "VERSION"}),
        (1, {"HARDWARE", "KERNEL", "VERSION"}),
    ],
)
def test_narrow_terminal_keeps_the_most_important_columns(width: int, left_out: set[str]) -> None:
    assert set(WIDTHS) - set(fitting(WIDTHS, width)) == left_out


@pytest.mark.parametrize(
    ("answer", "agreed"), [("", True), ("y", True), ("Yes", True), ("n", False), ("what", False)]
)
def test_packages_are_listed_and_confirmed_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, agreed: bool
) -> None:
    monkeypatch.setattr("builtins.input", lambda _question: answer)
    assert confirm_packages(["dbus", "ovn-host"], interactive=True) is agreed
    assert "dbus ovn-host" in capsys.readouterr().out


def test_packages_are_listed_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert confirm_packages(["dbus"], interactive=False)
    assert "dbus" in capsys.readouterr().out


def test_commands_to_paste_find_the_lab_and_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "a person's files"
    here.mkdir()
    monkeypatch.chdir(here)
    checks = 'pwd; echo "$KUBECONFIG"; command -v cobalt'

    shell = ("sh", "-c", f"{preparation(Path('.lab/kubeconfig'))}\n{checks}")
    shown = subprocess.run(shell, cwd="/", capture_output=True, text=True, check=True)

    programs = Path(sys.executable).parent
    assert shown.stdout.splitlines() == [
        str(here),
        str(here / ".lab/kubeconfig"),
        str(programs / "cobalt"),
    ]


@pytest.mark.parametrize(
    ("vms", "hosts", "tried"),
    [
        pytest.param(
            [
                ListedVm("vm-1", "kvm-1", "running", "linux"),
                ListedVm("vm-2", "kvm-2", "running", "linux"),
            ],
            ["kvm-1", "kvm-2", "kvm-3"],
            ["lab vm move vm-1 kvm-3 --slow 16 -D", "evict kvm-1 --watch", "resume kvm-1"],
            id="what a new lab has",
        ),
        pytest.param(
            [ListedVm("vm-7", "kvm-3", "running", "boot")],
            ["kvm-2", "kvm-3"],
            ["lab vm move vm-7 kvm-2 --slow 16 -D", "evict kvm-3 --watch", "resume kvm-3"],
            id="it is on the last host",
        ),
        pytest.param([], ["kvm-1", "kvm-2"], ["lab vm add -D"], id="no VM"),
        pytest.param(
            [
                ListedVm("vm-1", "kvm-1", "shut off", "linux"),
                ListedVm("mine", "kvm-1", "running", ""),
            ],
            ["kvm-1", "kvm-2"],
            ["lab vm add -D"],
            id="none that runs and is the lab's",
        ),
        pytest.param(
            [ListedVm("vm-1", "kvm-1", "running", "linux")],
            ["kvm-1"],
            ["lab vm add -D"],
            id="nowhere to go",
        ),
    ],
)
def test_suggested_commands_work_on_existing_hosts_and_instances(
    vms: list[ListedVm], hosts: list[str], tried: list[str]
) -> None:
    assert things_to_try(vms, hosts, " -D") == (
        "kubectl get hypervisors -o wide --watch",
        "kubectl get ovsnodes -A",
        *(f"cobalt {command}" for command in tried),
        f"cobalt lab host crash {hosts[-1]} -D",
    )


def test_suggestion_to_crash_is_left_out_where_every_host_is_frozen() -> None:
    assert "crash" not in " ".join(things_to_try([], [], ""))


def test_lab_with_openstack_names_how_its_clients_find_it() -> None:
    lines = cloud_to_try(Path("/a b/clouds.yaml"), ("kvm-1", "kvm-2"), " --data x")
    assert (
        "OS_CLIENT_CONFIG_FILE='/a b/clouds.yaml' OS_CLOUD=admin openstack server list --long"
        in lines
    )
    assert "cobalt lab host crash kvm-2 --data x" in lines
    assert not any("lab vm" in line for line in lines)
