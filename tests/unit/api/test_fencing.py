"""Whether a host counts as proven dead."""

from __future__ import annotations

import pytest

from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta


@pytest.mark.parametrize(
    ("boot", "fencing", "expected"),
    [
        ("b1", None, False),
        ("b1", Fencing(phase=FencingPhase.ATTEMPTING, bootID="b1"), False),
        ("b1", Fencing(phase=FencingPhase.FAILED, bootID="b1"), False),
        ("b1", Fencing(phase=FencingPhase.RELEASED, bootID="b1"), False),
        ("b1", Fencing(phase=FencingPhase.FENCED, bootID="b1"), True),
        ("b2", Fencing(phase=FencingPhase.FENCED, bootID="b1"), False),
        ("b2", Fencing(phase=FencingPhase.FENCED), False),
        (None, Fencing(phase=FencingPhase.FENCED, bootID="b1"), False),
        (None, Fencing(phase=FencingPhase.FENCED), False),
        ("", Fencing(phase=FencingPhase.FENCED, bootID=""), False),
        (None, Fencing(phase=FencingPhase.FENCED, bootID=""), False),
    ],
)
def test_a_host_is_fenced_for_the_boot_that_it_has_reported_last(
    boot: str | None, fencing: Fencing | None, expected: bool
) -> None:
    status = HypervisorStatus(bootID=boot, fencing=fencing)
    assert is_fenced(Hypervisor(metadata=ObjectMeta(name="kvm-1"), status=status)) is expected
