from __future__ import annotations

from hypercobalt.drills import timeline
from hypercobalt.drills.catalogue import DRILLS
from hypercobalt.drills.record import DrillRecord, Mark, Moment, Result


def test_a_page_shows_every_drill_with_its_moments_as_text() -> None:
    moments = (Moment(1.0, Mark.DONE, "power cut"), Moment(9.0, Mark.SEEN, "<runs>", 8.0))
    good = Result("host-crash", "A host loses power.", 10, "", {"seconds": 8.0}, moments)
    bad = Result("bmc-lying", "A BMC lies.", 5, "it ran twice", {}, moments[:1])
    page = timeline.render([good, bad])
    assert "1 of 2 drills passed" in page
    assert "host-crash: passed" in page
    assert "bmc-lying: failed" in page
    assert "&lt;runs&gt;" in page
    assert "margin-left:10.0%;width:80.0%" in page


def test_a_record_keeps_moments_in_order_and_shows_each() -> None:
    shown: list[Moment] = []
    record = DrillRecord(shown.append)
    record.add(Mark.DONE, "power cut")
    record.add(Mark.FAILED, "nothing came")
    result = record.result("host-crash", "A host loses power.", "nothing came")
    assert [one.text for one in result.moments] == ["power cut", "nothing came"]
    assert result.moments == tuple(shown)
    assert not result.passed


def test_a_drill_is_found_by_its_own_name() -> None:
    assert all(name == drill.name and drill.purpose for name, drill in DRILLS.items())
