from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.lab import state as records
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.locks import locked
from hypercobalt.lab.state import HostRecord, LabState, Layout

LAB = LabState(id="0123456789abcdef0123456789abcdef", number=7)


def test_saved_state_is_read_again(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path)
    assert records.load(layout) is None
    made = LAB.with_host("kvm-1").with_host("kvm-2")
    records.save(layout, made)
    assert records.load(layout) == made
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


def test_lab_without_its_files_is_known_until_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "RUNNING", tmp_path / "run")
    layout, other = Layout.at(tmp_path / "lab"), Layout.at(tmp_path / "other")
    layout.data.mkdir()
    records.save_running(layout, LAB)
    records.save_running(layout, LAB.with_host("kvm-1"))
    (tmp_path / "run" / "damaged.json").write_text("{")
    assert records.lost(layout) is None
    layout.state.unlink()
    assert records.lost(layout) == LAB.with_host("kvm-1")
    assert records.lost(other) is None
    records.forget(layout, LAB)
    assert records.lost(layout) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"id": 1, "number": 1}', '{"id": "a", "number": 1, "version": 2}'],
    ids=["empty", "cut off", "a list", "wrong type", "a later version"],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(LabError, match=r"state\.json cannot be read"):
        records.load(Layout.at(tmp_path))


def test_every_name_on_the_machine_has_the_prefix_and_fits() -> None:
    lab = LabState(id=LAB.id, number=255)
    assert (lab.prefix, lab.bridge) == ("hc255", "hc255br")
    assert lab.address == "10.77.255.254"
    assert lab.bridge_mac == "02:01:23:45:67:89"
    assert len(f"vb-{lab.prefix}-{records.MAX_HOSTS}") <= 15


def test_a_removed_host_gives_its_address_to_the_next_one() -> None:
    lab = LAB.with_host("a").with_host("b").with_host("c").without_host("b").with_host("d")
    assert lab.hosts == (HostRecord("a", 1), HostRecord("c", 3), HostRecord("d", 2))
    assert lab.host_address(lab.host("d")) == "10.77.7.2"


@given(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?", fullmatch=True))
def test_a_host_has_a_name_that_dns_takes(name: str) -> None:
    assert LAB.with_host(name).host(name).index == 1


@given(
    st.text(max_size=70).filter(
        lambda name: (
            not set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789")
            and not name.replace("-", "a").isascii()
        )
    )
    | st.sampled_from(["", "-", "a-", "-a", "A", "a.b", "a/b", "a b", "a" * 53, "a\n"])
)
def test_any_other_name_is_refused_by_name(name: str) -> None:
    with pytest.raises(LabError, match=re.escape(repr(name))):
        LAB.with_host(name)


def test_two_hosts_of_one_name_are_refused() -> None:
    with pytest.raises(LabError, match="'a' is in the lab already"):
        LAB.with_host("a").with_host("a")


def test_hosts_end_before_the_addresses_do() -> None:
    lab = LAB
    for number in range(records.MAX_HOSTS):
        lab = lab.with_host(f"h{number}")
    with pytest.raises(LabError, match="at most 200 hosts"):
        lab.with_host("one-more")


def test_an_unknown_host_is_named_with_those_there_are() -> None:
    with pytest.raises(LabError, match="host 'x' is not in the lab; there are: a, b"):
        LAB.with_host("a").with_host("b").host("x")


def test_a_lock_outlives_no_command_and_excludes_others(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path / "new")
    with (
        locked(layout),
        pytest.raises(LabError, match="another command"),
        locked(layout),
    ):
        pass
    with locked(layout):
        pass


def test_a_lock_that_was_taken_away_is_not_held(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path)
    with locked(layout, ends=True):
        layout.lock.unlink()  # as `down` does
        with locked(layout):
            pass


def test_pods_of_no_two_hosts_have_one_address() -> None:
    labs = [LabState(id=LAB.id, number=number) for number in (0, 1, 255)]
    found = [lab.pod_network(HostRecord("h", index)) for lab in labs for index in (1, 2, 200)]
    assert not any(a.overlaps(b) for a in found for b in found if a != b)
    assert len(set(found)) == 9
    assert str(LAB.pod_network(HostRecord("h", 1))) == "100.65.192.64/26"
