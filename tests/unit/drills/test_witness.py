"""When two QEMUs of one instance count as a double run."""

from __future__ import annotations

from hypercobalt.drills.witness import Emulator, Overlaps

UUID = "3e0e7d0c-0000-4000-8000-000000000001"
ON, OFF = 20, 1  # wakes in one look of a guest that runs, and of one that is paused


def found(*looks: dict[str, int], uuids: dict[str, str] | None = None) -> list[tuple[str, ...]]:
    """The machines of each double run, from what each machine's QEMU has woken up in each look."""
    overlaps = Overlaps()
    total: dict[str, int] = {}
    for look in looks:
        for machine, wakes in look.items():
            total[machine] = total.get(machine, 0) + wakes
        overlaps.look(
            [
                Emulator(
                    int(machine[-1]), (uuids or {}).get(machine, UUID), machine, total[machine]
                )
                for machine in look
            ]
        )
    return [one.machines for one in overlaps.found.values()]


BOTH = {"hc0-1": ON, "hc0-2": ON}


def test_two_guests_that_run_for_several_looks_are_a_double_run() -> None:
    assert found(*[BOTH] * 4) == [("hc0-1", "hc0-2")]


def test_a_double_run_that_is_over_is_not_forgotten() -> None:
    assert found(*[BOTH] * 4, {"hc0-1": ON}) == [("hc0-1", "hc0-2")]


def test_migration_is_no_double_run() -> None:
    waits = {"hc0-1": ON, "hc0-2": OFF}
    switches = {"hc0-1": ON, "hc0-2": ON}
    over = {"hc0-1": OFF, "hc0-2": ON}
    assert found(waits, waits, switches, switches, over, over, {"hc0-2": ON}) == []


def test_a_stopped_host_does_not_run_its_guests() -> None:
    assert found(*[{"hc0-1": 0, "hc0-2": ON}] * 6) == []


def test_two_instances_are_no_double_run() -> None:
    assert found(*[BOTH] * 6, uuids={"hc0-2": UUID[:-1] + "2"}) == []


def test_one_guest_after_the_other_is_a_restart() -> None:
    assert found(*[{"hc0-1": ON}] * 5, *[{"hc0-2": ON}] * 5) == []
