"""What `cobalt evict --watch` prints of an Eviction that others have written."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import msgspec
import pytest
from rich.console import Console
from tests.unit.operator.samples import condition

from hypercobalt.api.eviction import (
    Eviction,
    EvictionInstance,
    EvictionProgress,
    EvictionSpec,
    EvictionStatus,
)
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.cli.evict_bars import picture
from hypercobalt.cli.exit_codes import print_error
from hypercobalt.views.eviction_progress import outcome, summary

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = "moved\x1b[2J\x1b]0;title\x07\rall is well\u202e\nkvm-9 is empty"
INSTANCE = EvictionInstance(
    id="a", name=HOSTILE, phase="Migrating", message=HOSTILE, target=HOSTILE
)


def eviction(*conditions: tuple[str, str, str], progress: bool = False) -> Eviction:
    return Eviction(
        metadata=ObjectMeta(name="kvm-a"),
        spec=EvictionSpec(hypervisor=HOSTILE, reason="test"),
        status=EvictionStatus(
            conditions=tuple(condition(*one, HOSTILE) for one in conditions),
            instances=(INSTANCE,),
            progress=EvictionProgress(total=1, done=0) if progress else None,
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        summary(eviction(("Evicting", "True", "Running")), NOW),
        summary(
            eviction(
                ("Evicting", "True", "Running"), ("PreflightChecksSucceeded", "False", "Failed")
            ),
            NOW,
        ),
        outcome(eviction(("Evicting", "False", "Failed"))),
    ],
    ids=["running", "waiting", "ended"],
)
def test_a_message_is_one_line_without_control_characters(text: str) -> None:
    assert "all is well" in text
    assert text.isprintable()


def test_names_and_messages_behind_the_bars_move_no_cursor() -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=400, color_system=None)
    console.print(picture(eviction(("Evicting", "True", "Running"), progress=True), NOW))
    lines = shown.getvalue().splitlines()
    assert len(lines) == 2
    assert "all is well" in lines[1]
    assert all(line.isprintable() for line in lines)


def test_an_error_is_one_line_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_error("evict", HOSTILE)
    assert capsys.readouterr().err.removesuffix("\n").isprintable()


def test_instances_are_counted_by_phase() -> None:
    phases = ("Migrating", "Evacuating", "Evacuating", "Restarting", "Succeeded")
    busy = EvictionStatus(
        conditions=(condition("Evicting", "True", "Running", ""),),
        instances=tuple(EvictionInstance(id=str(n), phase=one) for n, one in enumerate(phases)),
        progress=EvictionProgress(total=5, done=1),
    )
    made = Eviction(
        metadata=ObjectMeta(name="kvm-a"),
        spec=EvictionSpec(hypervisor="kvm-a", reason="test"),
        status=busy,
    )
    assert summary(made, NOW) == "1 of 5 done, 1 migrating, 2 evacuating, 1 restarting"


def test_guests_that_are_waited_for_are_counted_in_the_line() -> None:
    given = eviction(("Evicting", "True", "Running"), progress=True)
    status = msgspec.structs.replace(
        given.status, instances=(), virtualMachineInstances=("default/a", HOSTILE)
    )
    line = summary(msgspec.structs.replace(given, status=status), NOW)
    assert line == "0 of 1 done, waiting for 2 VirtualMachineInstances: default/a …"
