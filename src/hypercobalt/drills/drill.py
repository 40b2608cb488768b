"""A drill, and how one is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from hypercobalt.drills import aftermath
from hypercobalt.drills.record import DrillError, DrillRecord, Mark, Moment, Result
from hypercobalt.drills.stage import Stage, staged
from hypercobalt.errors import HypercobaltError, words

Play = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Drill:
    """One failure, and what has to become of it.

    Args:
        name: what a person types.
        purpose: one sentence: what fails, and what must follow.
        play: does it; raises DrillError where something else follows.
        hosts: that it needs.
        in_ci: CI runs it; the others take too long there, and `cobalt drill --all` runs them.
    """

    name: str
    purpose: str
    play: Play
    hosts: int = 3
    in_ci: bool = True


async def run(
    drill: Drill, show: Callable[[Moment], None] = lambda _: None, data: Path | None = None
) -> Result:
    """Run a drill on a lab of its own. A double run or a damaged disk fails every drill.

    Args:
        drill: which.
        show: called with each moment.
        data: directory of the lab, which stays there after a failure; a temporary one when not
            given.
    """
    record = DrillRecord(show)
    failure = ""
    try:
        async with staged(drill.hosts, record, data) as stage:
            await _played(drill, stage)
    except (HypercobaltError, OSError, TimeoutError) as error:
        failure = words(error)
    if failure:
        record.add(Mark.FAILED, failure)
    return record.result(drill.name, drill.purpose, failure)


async def _played(drill: Drill, stage: Stage) -> None:
    """Play a drill, and note the state of its lab when it fails.

    Raises:
        DrillError: it has failed, or something ran twice.
    """
    failure = ""
    try:
        await drill.play(stage)
    except (HypercobaltError, OSError, TimeoutError) as error:
        failure = words(error)
    found = (*map(str, stage.witness.double_runs), *stage.ledgers(), failure)
    if text := "; ".join(filter(None, found)):
        await aftermath.note(stage)
        raise DrillError(text)
