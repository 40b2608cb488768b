from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.host.incarnation import (
    Incarnation,
    is_over,
    parse,
    start_of,
    this_process,
)

HERE = Incarnation("kvm-a", "m1", "boot-2", 700, 9000)


@pytest.mark.parametrize(
    ("other", "over"),
    [
        pytest.param(Incarnation("kvm-a", "m1", "boot-2", 600, 5000), False, id="runs"),
        pytest.param(Incarnation("kvm-a", "m1", "boot-2", 601, 5000), True, id="its pid is gone"),
        pytest.param(
            Incarnation("kvm-a", "m1", "boot-2", 600, 4000), True, id="another has its pid"
        ),
        pytest.param(Incarnation("kvm-a", "m1", "boot-1", 600, 5000), True, id="before a reboot"),
        pytest.param(Incarnation("kvm-a", "m2", "boot-1", 600, 5000), False, id="another machine"),
        pytest.param(Incarnation("kvm-a", "", "boot-1", 601, 5000), False, id="in a container"),
    ],
)
def test_process_is_over_when_its_id_or_boot_is_another(other: Incarnation, over: bool) -> None:
    assert is_over(other, HERE, {600: 5000}.get) is over


def test_a_process_cannot_be_judged_from_a_container() -> None:
    here = Incarnation("kvm-a", "", "boot-1", 1, 10)

    assert not is_over(Incarnation("kvm-a", "", "boot-0", 1, 5), here, lambda _: None)


names = st.text("abc_-.", min_size=1, max_size=8)
tokens = st.text("0123456789abcdef-", max_size=8)
numbers = st.integers(0, 2**40)


@given(st.builds(Incarnation, names, tokens, tokens, numbers, numbers))
def test_written_incarnation_is_read_again(given_: Incarnation) -> None:
    assert parse(str(given_)) == given_


@given(st.text())
def test_any_other_text_is_none_or_reads_the_same(text: str) -> None:
    found = parse(text)

    assert found is None or isinstance(found.pid, int)


def test_a_machine_is_named_under_its_systemd_only(tmp_path: Path) -> None:
    proc, etc = tmp_path / "proc", tmp_path / "etc"
    for directory in (proc / "1", proc / "sys/kernel/random", proc / str(os.getpid()), etc):
        directory.mkdir(parents=True)
    (proc / "sys/kernel/random/boot_id").write_text("b1\n")
    (proc / "1/stat").write_text(f"1 (sys) temd) S {' '.join(map(str, range(4, 40)))}\n")
    (etc / "machine-id").write_text("m1\n")

    for name, machine in (("systemd", "m1"), ("sh", "")):
        (proc / "1/comm").write_text(f"{name}\n")
        found = this_process(proc, etc)
        assert (found.machine, found.boot, found.pid) == (machine, "b1-22", os.getpid())


def test_this_process_runs_and_one_that_was_reaped_does_not() -> None:
    here = this_process()
    assert start_of(here.pid) == here.started

    gone = os.fork()
    if not gone:
        os._exit(0)
    os.waitpid(gone, 0)
    assert start_of(gone) is None
