"""Pods by the units of systemd: their names, and the command lines of their processes."""

from __future__ import annotations

import pytest

from hypercobalt.adapters.host.pod_model import KnownPods, PodInterest, PodProcesses, words
from hypercobalt.adapters.host.pods import group_uid, pod_uid

UID = "0f6c2b1e-1111-4111-8111-0123456789ab"
OTHER = "ffffffff-2222-4222-8222-0123456789ab"
SLICED = UID.replace("-", "_")
INTEREST = PodInterest("launcher", "qemu-")


@pytest.mark.parametrize(
    ("unit", "uid"),
    [
        pytest.param(f"hypercobalt-pod-{UID}.service", UID, id="lab"),
        pytest.param(f"kubepods-pod{UID.replace('-', '_')}.slice", UID, id="guaranteed"),
        pytest.param(f"kubepods-burstable-pod{UID.replace('-', '_')}.slice", UID, id="burstable"),
        pytest.param("kubepods-burstable.slice", "", id="slice-of-all"),
        pytest.param("hypercobalt-pod-x.service", "", id="no-uid"),
        pytest.param(f"hypercobalt-pod-{UID}/..service", "", id="path"),
        pytest.param("libvirtd.service", "", id="no-pod"),
    ],
)
def test_unit_names_its_pod(unit: str, uid: str) -> None:
    assert pod_uid(unit) == uid


@pytest.mark.parametrize(
    ("path", "uid"),
    [
        pytest.param(f"/kubepods/pod{UID}/c0ffee", UID, id="guaranteed"),
        pytest.param(f"/kubepods/burstable/pod{UID}/c0ffee", UID, id="burstable"),
        pytest.param(f"/kubepods/besteffort/pod{UID}", UID, id="besteffort"),
        pytest.param(f"/kubelet/kubepods/burstable/pod{UID}/c0ffee", UID, id="below-a-root"),
        pytest.param(f"/kubepods/pod{UID}/x/kubepods/pod{OTHER}", UID, id="pod-in-a-pod"),
        pytest.param(f"/kubepods/other/pod{OTHER}", "", id="no-class"),
        pytest.param(f"/kubepods/burstable/x/pod{OTHER}", "", id="below-no-pod"),
        pytest.param(f"/kubepods/x/kubepods/pod{OTHER}", "", id="second-root"),
        pytest.param(
            f"/kubepods.slice/kubepods-pod{SLICED}.slice/a.scope/kubepods/pod{OTHER}",
            "",
            id="made-in-a-pod-that-has-a-unit",
        ),
        pytest.param(
            f"/user.slice/user-1.slice/user@1.service/kubepods/pod{OTHER}", "", id="made-by-a-user"
        ),
        pytest.param(f"/kubepods/pod{UID.replace('-', '_')}", "", id="of-the-other-driver"),
        pytest.param(f"/kubepods/pod{UID}\n", "", id="line-end"),
        pytest.param("/kubepods/podx", "", id="no-uid"),
        pytest.param("/kubepods", "", id="root-of-all"),
        pytest.param("/", "", id="root"),
        pytest.param("", "", id="empty"),
        pytest.param("/system.slice/libvirtd.service", "", id="no-pod"),
    ],
)
def test_group_names_its_pod(path: str, uid: str) -> None:
    assert group_uid(path) == uid


@pytest.mark.parametrize(
    ("command", "given"),
    [
        pytest.param("a b", ("a", "b"), id="plain"),
        pytest.param(r'a "{\"n\":\"x y\"}"', ("a", '{"n":"x y"}'), id="quoted"),
        pytest.param('a "b', (), id="broken"),
        pytest.param("a" * 100_000, (), id="too-long"),
    ],
)
def test_command_line_is_read_as_systemd_quotes_it(command: str, given: tuple[str, ...]) -> None:
    assert words(command) == given


@pytest.mark.parametrize(
    ("commands", "seen", "whole"),
    [
        pytest.param([("nginx",)], (), False, id="other-pod"),
        pytest.param([("/usr/bin/qemu-system-x86_64",)], (), False, id="emulator-alone"),
        pytest.param([("py", "launcher"), ("sh",)], (("py", "launcher"),), False, id="starting"),
        pytest.param(
            [("py", "launcher"), ("/bin/qemu-kvm", "-m")],
            (("/bin/qemu-kvm", "-m"), ("py", "launcher")),
            True,
            id="with-its-guest",
        ),
    ],
)
def test_pod_is_of_interest_by_its_launcher(
    commands: list[tuple[str, ...]], seen: tuple[tuple[str, ...], ...], *, whole: bool
) -> None:
    found = INTEREST.of(commands)
    assert found == seen
    assert INTEREST.is_whole(found) is whole


QEMU = "/usr/bin/qemu-kvm -m 64"
MANY = [f"fork {number}" for number in range(300)]


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        pytest.param(["nginx"], None, id="other"),
        pytest.param([*MANY, 'nginx "x'], None, id="many-others"),
        pytest.param([*MANY, "py launcher"], (("py", "launcher"),), id="after-many"),
        pytest.param(['py launcher "x'], (), id="cannot-be-taken-apart"),
        pytest.param([f"py launcher {'x' * 100_000}"], (), id="too-long"),
        pytest.param([*["qemu-kvm"] * 300, "py launcher"], (), id="after-many-of-interest"),
        pytest.param(["sh -c 'ls launchers'"], None, id="word-within-another"),
        pytest.param(['qemu-kvm "x'], None, id="emulator-alone-that-cannot-be-taken-apart"),
    ],
)
def test_what_cannot_be_read_of_a_pod_hides_no_launcher(
    lines: list[str], seen: tuple[tuple[str, ...], ...] | None
) -> None:
    assert INTEREST.read(lines) == seen


def test_pod_that_was_whole_stays_of_interest_until_it_has_no_process() -> None:
    known = KnownPods(INTEREST)
    whole = PodProcesses(UID, (("/usr/bin/qemu-kvm", "-m", "64"), ("py", "launcher")))
    assert known.read(UID, ["py launcher", QEMU]) == whole
    assert known.read(UID, ["nginx"]) == whole
    assert known.unread(UID) == whole
    assert known.read(UID, []) is None
    assert known.read(OTHER, ["nginx"]) is None


def test_pod_that_was_not_whole_is_judged_by_its_present_processes() -> None:
    """Who looks for launchers in a pod, by their name, is none."""
    known = KnownPods(INTEREST)
    assert known.read(UID, ["pgrep -f launcher"]) is not None
    assert known.read(UID, ["sh"]) is None


def test_pod_that_an_earlier_process_has_seen_is_known_until_it_is_gone() -> None:
    known = KnownPods(INTEREST)
    known.remember({UID: (("launcher", "name"),)})
    assert known.read(UID, ["nginx"]) == PodProcesses(UID, (("launcher", "name"),))
    known.forget({UID})
    assert known.read(UID, ["nginx"]) is None
