"""`cobalt drill`: real failures on real hosts, and whether the instances survive them."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from hypercobalt import logs
from hypercobalt.cli import exit_codes
from hypercobalt.cli.tables import Output, print_json, print_table
from hypercobalt.drills import drill as drills
from hypercobalt.drills import timeline
from hypercobalt.drills.catalogue import DRILLS
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.record import Moment, Result
from hypercobalt.drills.soak import SHORT, soak
from hypercobalt.errors import HypercobaltError, InvalidRequestError

_LONGEST = 7 * 24 * 60  # minutes


def drill(
    *names: str,
    all_: Annotated[bool, Parameter(name="--all", negative=())] = False,
    output: Output = "text",
    html: Path | None = None,
    data: Path | None = None,
    seed: int = 1,
    minutes: Annotated[float, Parameter(validator=validators.Number(gt=0, lte=_LONGEST))] = (
        SHORT / timedelta(minutes=1)
    ),
) -> int:
    """Break real hosts and guests, and check that no instance is lost and none runs twice.

    Each drill has a small lab of its own. Without a name, the drills are listed.

    Parameters
    ----------
    names
        Names of the drills, in order.
    all_
        Run all of them but `soak`.
    output
        `text`, each moment as it comes, or `json` at the end.
    html
        File for a page with the timelines, written again after each drill.
    data
        Directory of the labs. After a drill that fails its lab stays there, and no other is run.
    seed
        What fails when in the drill `soak`.
    minutes
        How long the drill `soak` begins further failures.
    """
    known = DRILLS | {"soak": soak(seed, timedelta(minutes=minutes))}
    try:
        wanted = _wanted(names, known, all_=all_)
        if html and wanted:
            _begin(html)  # not after an hour
    except HypercobaltError as error:
        return exit_codes.report_error("drill", error)
    if not wanted:
        print_table(("DRILL", "SHOWS"), ((one.name, one.purpose) for one in known.values()))
        return 0
    logs.configure(level=logging.WARNING)
    results: list[Result] = []
    interrupted = False
    try:
        asyncio.run(_run(wanted, data, results, html, text=output == "text"))
    except (KeyboardInterrupt, asyncio.CancelledError):  # the lab is gone by now
        interrupted = True
    if output == "json":
        print_json(results)
    elif len(wanted) > 1:
        print(summary(results, len(wanted)))
    if interrupted:
        exit_codes.print_error("drill", "interrupted")
        return exit_codes.INTERRUPTED
    return 0 if all(result.passed for result in results) else 1


def _wanted(names: Sequence[str], known: Mapping[str, Drill], *, all_: bool) -> list[Drill]:
    """The drills to run; none to list them.

    Raises:
        InvalidRequestError: there is no such drill, or names go with --all.
    """
    if all_ and names:
        raise InvalidRequestError(f"--all takes no names, not {' '.join(names)}")
    if unknown := [name for name in names if name not in known]:
        raise InvalidRequestError(f"no drill {unknown[0]!r}; `cobalt drill` lists them")
    return [known[name] for name in (DRILLS if all_ else names)]


def _begin(html: Path) -> None:
    try:
        html.write_text(timeline.render(()), encoding="utf-8")
    except OSError as error:
        raise InvalidRequestError(f"--html {html}: {error.strerror}") from error


async def _run(
    wanted: Sequence[Drill],
    data: Path | None,
    results: list[Result],
    html: Path | None,
    *,
    text: bool,
) -> None:
    """Run drills; what has come of each is kept at once, as all of them take most of an hour."""
    task = asyncio.current_task()
    if task is not None:  # as for Ctrl-C, so that no lab stays
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    for number, one in enumerate(wanted, 1):
        title = f"{one.name} ({number} of {len(wanted)}): {one.purpose}"
        print(title, file=sys.stdout if text else sys.stderr, flush=True)
        results.append(await drills.run(one, _show if text else lambda _: None, data))
        if html:
            await asyncio.to_thread(html.write_text, timeline.render(results), encoding="utf-8")
        if text:
            print(f"{_outcome(results[-1])}\n", flush=True)
        if data and not results[-1].passed:
            print(f"`cobalt lab down --data {data}` ends its lab", file=sys.stderr)
            break


def _show(moment: Moment) -> None:
    took = f" ({moment.took:.1f} s)" if moment.took else ""
    print(f"{moment.at:8.1f} s  {moment.mark:7}{moment.text}{took}", flush=True)


def _outcome(result: Result) -> str:
    figures = "".join(f", {name} {value:g}" for name, value in result.figures.items())
    verdict = "passed" if result.passed else "FAILED"
    return f"{result.name}: {verdict} in {result.seconds:.0f} s{figures}"


def summary(results: Sequence[Result], wanted: int) -> str:
    """Sum up all drills in one line, with the names of the failed ones."""
    minutes = sum(result.seconds for result in results) / 60
    failed = [result.name for result in results if not result.passed]
    words = f"{len(results) - len(failed)} of {wanted} drills passed in {minutes:.0f} min"
    words += f"; failed: {', '.join(failed)}" if failed else ""
    left = wanted - len(results)
    return f"{words}; not run: {left}" if left else words
