"""The memory that a pass leaves to the next one."""

from __future__ import annotations

from hypercobalt.operator.eviction.memory import Memory


def test_patience_starts_anew_each_time_instances_linger() -> None:
    memory = Memory("uid")
    assert not memory.counted(1, lingering=False)
    assert not memory.lingered

    assert memory.counted(2, lingering=True)
    assert not memory.counted(3, lingering=True)
    assert memory.counted_since == 2

    assert not memory.counted(4, lingering=False)
    assert memory.counted(100, lingering=True)
    assert memory.counted_since == 100
    assert memory.lingered
