"""Events in both groups: what they need, how long they may be, and what stays as it was made."""

from __future__ import annotations

from tests.conformance.script import Api, scenario
from tests.conformance.wire import Json

TIME, LATER = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:00.000000Z"


def modern_path(api: Api, name: str = "") -> str:
    """Path in the newer group."""
    path = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    return f"{path}/{name}" if name else path


def modern(name: str, api: Api, **fields: Json) -> dict[str, Json]:
    """An Event as agents make it."""
    return {
        "metadata": {"name": name},
        "eventTime": TIME,
        "reportingController": "example.com/watcher",
        "reportingInstance": "watcher-1",
        "action": "Watching",
        "reason": "Seen",
        "type": "Normal",
        "note": "seen",
        "regarding": {"kind": "Pod", "name": "a", "namespace": api.namespace},
        **fields,
    }


def core(name: str, api: Api, **fields: Json) -> dict[str, Json]:
    """An Event of the older form."""
    about = {"kind": "Pod", "name": "a", "namespace": api.namespace}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Seen", **fields}


@scenario
async def test_fields_of_an_event_are_needed_and_bounded(api: Api) -> None:
    path = f"{modern_path(api)}?dryRun=All"
    for fields in (
        {"note": "x" * 1024},
        {"note": "x" * 1025},
        {"note": "é" * 513},
        {"reason": "x" * 129},
        {"reason": ""},
        {"action": "x" * 129},
        {"reportingInstance": "x" * 129},
        {"reportingController": "no name"},
        {"reportingController": "a/b/c"},
        {"reportingController": ""},
        {"eventTime": None},
        {"type": "Odd"},
        {"series": {"count": 1, "lastObservedTime": TIME}},
        {"series": {"count": 2}},
        {"deprecatedCount": 1},
        {"regarding": {"kind": "Pod", "name": "a"}},
        {"regarding": {"kind": "Pod", "name": "a", "namespace": "kube-public"}},
    ):
        await api.post(path, modern("one", api, **fields))
    path = f"{api.at('events')}?dryRun=All"
    for fields in (
        {},
        {"message": "x" * 1025},
        {"message": "x" * 1025, "eventTime": TIME},
        {"eventTime": TIME, "reportingComponent": "c", "reportingInstance": "i", "action": "a"},
        {"involvedObject": {"kind": "Node", "name": "a"}},
    ):
        await api.post(path, core("one", api, **fields))


@scenario
async def test_what_an_event_is_about_stays_as_it_was_made(api: Api) -> None:
    await api.post(modern_path(api), modern("one", api))
    path = modern_path(api, "one")
    for change in (
        {"regarding": {"name": "b"}},
        {"regarding": None},
        {"note": "other"},
        {"reason": "Other"},
        {"action": "Other"},
        {"type": "Warning"},
        {"reportingController": "example.com/other"},
        {"reportingInstance": "other"},
        {"eventTime": LATER},
        {"related": {"kind": "Pod", "name": "c"}},
        {"deprecatedCount": 3},
        {"deprecatedSource": {"component": "x"}},
        {"series": {"count": 1, "lastObservedTime": LATER}},
        {"note": "", "type": "Warning"},
    ):
        await api.patch(path, change)
    await api.patch(path, [{"op": "replace", "path": "/regarding/name", "value": "b"}], "json")
    await api.put(path, modern("one", api, regarding={"kind": "Node", "name": "b"}))
    await api.patch(path, {"series": {"count": 2, "lastObservedTime": LATER}})
    await api.patch(path, {"metadata": {"labels": {"a": "b"}}})


@scenario
async def test_the_core_group_changes_any_field(api: Api) -> None:
    await api.post(api.at("events"), core("old", api, message="x" * 2000))
    await api.patch(api.at("events", "old"), {"reason": "Other", "message": "short", "count": 2})
    await api.patch(api.at("events", "old"), {"involvedObject": {"name": "b"}})
    await api.patch(modern_path(api, "old"), {"reason": "Third"})
