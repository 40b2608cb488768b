"""Results of drills as one page of HTML: a timeline each, without scripts or other files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from hypercobalt.drills.record import Moment, Result

_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>Drills</title>
<style>
body {{ font: 14px sans-serif; max-width: 60em; margin: 2em auto; }}
h2 {{ margin-bottom: 0; }} p {{ margin: .2em 0 .6em; color: #555; }}
table {{ border-collapse: collapse; width: 100%; }} td {{ padding: .15em .5em; }}
td:first-child {{ text-align: right; width: 5em; color: #555; }}
td.bar {{ width: 14em; }} div {{ background: #9bd; height: .8em; min-width: 2px; }}
.done div {{ background: #888; }} .failed {{ color: #b00; }} .failed div {{ background: #b00; }}
</style>
<h1>{passed} of {count} drills passed</h1>
{drills}
</html>
"""


def render(results: Sequence[Result]) -> str:
    """The page."""
    passed = sum(result.passed for result in results)
    drills = "\n".join(map(_drill, results))
    return _PAGE.format(passed=passed, count=len(results), drills=drills)


def _drill(result: Result) -> str:
    verdict = "passed" if result.passed else "failed"
    figures = ", ".join(f"{name} {value:g}" for name, value in result.figures.items())
    rows = "\n".join(_row(moment, result.seconds) for moment in result.moments)
    return (
        f'<h2 class="{verdict}">{escape(result.name)}: {verdict}</h2>'
        f"<p>{escape(result.purpose)} {result.seconds:.1f} s. {escape(figures)}</p>"
        f"<table>{rows}</table>"
    )


def _row(moment: Moment, seconds: float) -> str:
    """A line whose bar begins when the wait began and ends with the moment."""
    took = moment.took or 0
    left, width = (100 * part / max(seconds, 0.01) for part in (moment.at - took, took))
    bar = f'<div style="margin-left:{left:.1f}%;width:{width:.1f}%"></div>'
    return (
        f'<tr class="{moment.mark}"><td>{moment.at:.1f} s</td>'
        f'<td class="bar">{bar}</td><td>{escape(moment.text)}</td></tr>'
    )
