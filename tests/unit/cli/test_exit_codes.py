"""Every command ends an invalid request with exit code 2, and names what is wrong in a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from hypercobalt.cli import app
from hypercobalt.cli.exit_codes import INVALID_REQUEST, UNAVAILABLE, exit_code
from hypercobalt.errors import ConfigurationError, HypercobaltError, TransientError
from hypercobalt.lab.errors import LabError, LabRequestError

NO_FILE, NO_LAB = "--kubeconfig no/file", "--data none"
MISSING = "kubeconfig no/file: No such file or directory"
WITHOUT_LAB = "there is no lab in"

INVALID = [
    ("crds", "--kind Pod", "kind 'Pod' is unknown: must be one of Hypervisor"),
    ("apiserver", "--data none --port 65536", '"65536" for --port. Must be <= 65535.'),
    ("apiserver", "--data none --node-monitor-grace-period 0s", "'0s' must be a positive duration"),
    ("apiserver", "--data none --port 0 --token-auth-file no/file", "token file no/file"),
    ("apiserver backup", "new --data none", "none holds no database; name the server's --data"),
    ("apiserver restore", "none --data new", "none is not a backup: cobalt.db is missing"),
    ("virt-api", "--virt-namespace a.b", "--virt-namespace 'a.b': must be the name of"),
    ("virt-api", f"--bind-address 0 {NO_FILE}", "--bind-address 0: virt-api serves nothing else"),
    ("virt-api", f"--handler-port 0 {NO_FILE}", "--handler-port 0: must be 1 to 65535"),
    ("virt-api", f"--handler-networks x {NO_FILE}", "--handler-networks: 'x' does not appear"),
    ("virt-api", NO_FILE, MISSING),
    ("operator", "", "--agent-namespaces is empty: list the namespaces"),
    ("operator", "--agent-namespaces a --compare soon", "'soon' must be a positive duration"),
    ("operator", "--agent-namespaces a --ha-timeout 10M", "such as 90s, 10m or 1h"),
    ("operator", "--agent-namespaces a --max-parallel 0", "--max-parallel 0: must be 1 or more"),
    ("operator", f"--agent-namespaces a --compute none {NO_FILE}", MISSING),
    (
        "operator",
        "--agent-namespaces a --fence-devices no/file",
        "--fence-devices no/file: No such",
    ),
    ("operator", "--agent-namespaces a,B_c", "--agent-namespaces 'B_c': must be the name of a"),
    ("node-agent", "--node kvm/1", "--node 'kvm/1': must be the name of a Node: lower-case"),
    ("ovs-agent", "--namespace a.b", "--namespace 'a.b': must be the name of a namespace"),
    ("node-agent", "--migration-count -1", "--migration-count -1: must not be negative"),
    ("ovs-agent", "--counters 1", "--counters 1: must be 10 s or longer"),
    ("virt-controller", NO_FILE, MISSING),
    ("virt-handler", NO_FILE, MISSING),
    ("console", f"lab/a {NO_FILE}", MISSING),
    ("virt-handler", "--node kvm/1", "--node 'kvm/1': must be the name of a Node: lower-case"),
    ("virt-controller", "--virt-namespace a.b", "--virt-namespace 'a.b': must be the name of a"),
    ("evict", "kvm-1 --parallelism 0", "--parallelism 0: must be 1 or more"),
    ("evict", "kvm-1 --instances x", "--instances: 'x' is not an instance UUID"),
    ("maintain", "kvm-1 --reason=", "--reason must not be empty"),
    ("resume", f"kvm-1 {NO_FILE}", MISSING),
    ("explain", "pod/x", "'pod/x': must be NAME, node/NAME, hypervisor/NAME"),
    ("network check", NO_FILE, MISSING),
    ("bridges", f"kvm-1 {NO_FILE}", MISSING),
    ("bridges", f"kvm-1 br-int {NO_FILE}", MISSING),
    ("bonds", f"kvm-1 {NO_FILE}", MISSING),
    ("ovn", f"kvm-1 {NO_FILE}", MISSING),
    ("ports", f"kvm-1 {NO_FILE}", MISSING),
    ("trace", "kvm-1", "--from is missing: the port that the packet comes in by"),
    ("capture", f"kvm-1 tap1 {NO_FILE}", MISSING),
    ("logs", f"kvm-1 {NO_FILE}", MISSING),
    ("drill", "vm-crush", "no drill 'vm-crush'; `cobalt drill` lists them"),
    ("drill", "vm-crash --all", "--all takes no names, not vm-crash"),
    ("drill", "soak --minutes nan", "Must be <= 10080."),
    ("drill", "vm-crash --html no/file", "--html no/file: No such file"),
    ("lab up", f"--hosts 0 {NO_LAB}", "--hosts 0: must be 1 or more"),
    ("lab up", f"--vms -1 {NO_LAB}", "--vms -1: must be 0 or more"),
    ("lab up", f"--port -1 {NO_LAB}", "Must be >= 0."),
    ("lab up", f"--node-grace 0s {NO_LAB}", "'0s' must be a positive duration"),
    ("lab down", "now", "Unused Tokens: ['now']"),
    ("lab status", NO_LAB, WITHOUT_LAB),
    ("lab exec", f"kvm-1 {NO_LAB}", WITHOUT_LAB),
    *((f"lab host {act}", f"kvm-1 {NO_LAB}", WITHOUT_LAB) for act in ("add", "remove", "start")),
    *((f"lab host {act}", f"kvm-1 {NO_LAB}", WITHOUT_LAB) for act in ("crash", "freeze", "thaw")),
    *((f"lab host {act}", f"kvm-1 {NO_LAB}", WITHOUT_LAB) for act in ("shutdown", "report")),
    *((f"lab net {act}", f"kvm-1 {NO_LAB}", WITHOUT_LAB) for act in ("cut", "restore", "delay")),
    ("lab bmc fault", f"kvm-1 dead {NO_LAB}", WITHOUT_LAB),
    *(
        (f"lab bond {act}", f"kvm-1 {NO_LAB}", WITHOUT_LAB)
        for act in ("unplug", "silence", "repair")
    ),
    *((f"lab storage {act}", NO_LAB, WITHOUT_LAB) for act in ("cut", "hang", "deny")),
    *((f"lab storage {act}", NO_LAB, WITHOUT_LAB) for act in ("fill", "restore")),
    *((f"lab ovn {act}", f"sb {NO_LAB}", WITHOUT_LAB) for act in ("stop", "hang", "start")),
    *((f"lab vm {act}", NO_LAB, WITHOUT_LAB) for act in ("add", "list")),
    *((f"lab vm {act}", f"a {NO_LAB}", WITHOUT_LAB) for act in ("remove", "start", "stop")),
    ("lab vm move", f"a kvm-1 {NO_LAB}", WITHOUT_LAB),
    ("lab vm console", f"a {NO_LAB}", WITHOUT_LAB),
    ("lab vm order", f"a help {NO_LAB}", WITHOUT_LAB),
]


def leaves(command: App, name: str = "") -> Iterator[str]:
    """The commands that can be run, by the words that name them."""
    if command.default_command is not None and name:
        yield name
    for word, below in command.resolved_commands().items():
        if not word.startswith("-"):
            yield from leaves(below, f"{name} {word}".strip())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty directory in which the commands are typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("command", "arguments", "text"), INVALID)
def test_an_invalid_request_is_refused_in_a_line(
    command: str, arguments: str, text: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = app([*command.split(), *arguments.split()], result_action="return_value")
    except SystemExit as ended:  # refused while the command line was read
        code = ended.code
    printed = capsys.readouterr()
    plain = " ".join(printed.err.replace("│", " ").split())
    assert (code, printed.out) == (INVALID_REQUEST, "")
    assert text in plain
    assert not (command.startswith("lab") and (here / "none").exists())


def test_every_command_is_in_the_table() -> None:
    assert set(leaves(app)) - {command for command, *_ in INVALID} == set()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), INVALID_REQUEST),
        (LabRequestError("x"), INVALID_REQUEST),
        (LabError("x"), UNAVAILABLE),
        (TransientError("x"), UNAVAILABLE),
        (HypercobaltError("x"), UNAVAILABLE),
    ],
)
def test_other_errors_end_with_1(error: HypercobaltError, code: int) -> None:
    assert exit_code(error) == code
