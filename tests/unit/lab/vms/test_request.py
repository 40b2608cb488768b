from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.vms.request import ListedVm, VMRequest, check_memory, parse_list, place

PRINTED = """\
 1    vm-1   running    linux 10.78.0.10
 -    vm-2   shut off   boot idle
 4    other  in shutdown
"""


def test_list_of_virsh_is_read() -> None:
    assert parse_list("kvm-1", PRINTED) == (
        ListedVm("vm-1", "kvm-1", "running", "linux 10.78.0.10"),
        ListedVm("vm-2", "kvm-1", "shut off", "boot idle"),
        ListedVm("other", "kvm-1", "in shutdown", ""),
    )


@given(st.text())
def test_any_output_is_read_without_error(printed: str) -> None:
    parse_list("kvm-1", printed)


@pytest.mark.parametrize(
    ("requests", "there", "placed"),
    [
        pytest.param(
            [VMRequest()] * 3,
            {"a": [], "b": []},
            [("vm-1", "a"), ("vm-2", "b"), ("vm-3", "a")],
            id="evenly",
        ),
        pytest.param(
            [VMRequest()],
            {"a": ["vm-1", "x"], "b": ["vm-3"]},
            [("vm-2", "b")],
            id="fewest-and-first-free-name",
        ),
        pytest.param(
            [VMRequest(host="a"), VMRequest()],
            {"a": [], "b": ["x"]},
            [("vm-1", "a"), ("vm-2", "a")],
            id="a-wish-comes-first-and-counts",
        ),
        pytest.param([VMRequest(name="db")], {"a": []}, [("db", "a")], id="a-name-of-ones-own"),
        pytest.param([], {}, [], id="nothing"),
    ],
)
def test_instances_are_placed_on_the_emptiest_hosts(
    requests: list[VMRequest], there: dict[str, list[str]], placed: list[tuple[str, str]]
) -> None:
    assert [(one.name, one.host) for one in place(requests, there)] == placed


@pytest.mark.parametrize(
    ("request_", "there", "why"),
    [
        pytest.param(VMRequest(name="x"), {"a": ["x"]}, "'x' is in the lab already", id="taken"),
        pytest.param(VMRequest(name="a/b"), {"a": []}, "name 'a/b' must be", id="no-name"),
        pytest.param(
            VMRequest(host="c"), {"a": []}, "c cannot take it: off; hosts that can: a", id="off"
        ),
        pytest.param(
            VMRequest(host="d"),
            {},
            "d cannot take it: not in the lab; hosts that can: none",
            id="unknown",
        ),
        pytest.param(VMRequest(), {}, "no host can take it: c: off", id="no-host"),
    ],
)
def test_impossible_requests_are_refused(
    request_: VMRequest, there: dict[str, list[str]], why: str
) -> None:
    with pytest.raises(LabError, match=why):
        place([request_], there, silent={"c": "off"})


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        pytest.param(
            [VMRequest(memory_mib=-5)], "a linux guest needs 96 MiB, not -5", id="negative"
        ),
        pytest.param([VMRequest(memory_mib=0)], "a linux guest needs 96 MiB, not 0", id="none"),
        pytest.param(
            [VMRequest(kind="boot", memory_mib=1)], "a boot guest needs 2 MiB", id="least"
        ),
        pytest.param([VMRequest(name="x", memory_mib=10**30)], "has 400 MiB left", id="enormous"),
        pytest.param(
            [VMRequest(), VMRequest(), VMRequest()],
            "VM .unnamed.: memory of 160",
            id="sum",
        ),
    ],
)
def test_memory_that_no_vm_can_have_is_refused(requests: list[VMRequest], why: str) -> None:
    with pytest.raises(LabError, match=why):
        check_memory(requests, 400)


def test_memory_that_is_there_is_given() -> None:
    check_memory([VMRequest(), VMRequest(), VMRequest(kind="boot")], 400)


def test_two_vms_of_one_batch_cannot_have_one_name() -> None:
    with pytest.raises(LabError, match="already"):
        place([VMRequest(name="x"), VMRequest(name="x")], {"a": []})
