"""Watches: from a version, from now, with initial events, selectors, bookmarks and time limits."""

from __future__ import annotations

from tests.conformance.samples import DEFINITIONS, GROUP, config_map, definition, gadget, pod
from tests.conformance.script import Api, scenario

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
INITIAL = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


@scenario
async def test_live_events_of_a_built_in_kind_are_sent(api: Api) -> None:
    maps, one = api.at("configmaps"), api.at("configmaps", "one")
    start = await api.get(maps)
    async with api.watch(maps, f"&resourceVersion={start.version}") as seen:
        await api.post(maps, config_map("one"))
        await api.patch(one, {"data": {"a": "2"}})
        await api.patch(one, {"data": {"a": "2"}})
        await api.delete(one)
        await seen.until(3)


@scenario
async def test_live_events_of_a_custom_kind_are_sent(api: Api) -> None:
    gadgets, one = api.at("gadgets"), api.at("gadgets", "one")
    start = await api.get(gadgets)
    async with api.watch(gadgets, f"&resourceVersion={start.version}") as seen:
        await api.post(gadgets, gadget("one"))
        await api.patch(f"{one}/status", {"status": {"phase": "New"}})
        await api.apply(one, gadget("one", {"size": 4}), force=True)
        await api.delete(one)
        await seen.until(4)


@scenario
async def test_past_events_are_replayed_from_a_version(api: Api) -> None:
    gadgets, one = api.at("gadgets"), api.at("gadgets", "one")
    start = await api.get(gadgets)
    made = await api.post(gadgets, gadget("one"))
    await api.patch(one, {"spec": {"size": 4}})
    await api.post(gadgets, gadget("two"))
    await api.delete(one)
    await api.watched(gadgets, f"&resourceVersion={start.version}")
    await api.watched(gadgets, f"&resourceVersion={made.version}")
    end = await api.get(gadgets)
    await api.watched(gadgets, f"&resourceVersion={end.version}")


@scenario
async def test_watch_without_version_begins_with_what_is_there(api: Api) -> None:
    maps = api.at("configmaps")
    await api.post(maps, config_map("one"))
    await api.post(maps, config_map("two"))
    for query in ("", "&resourceVersion=0"):
        async with api.watch(maps, query) as seen:
            await seen.until(2)
            await api.patch(f"{maps}/one", {"data": {"x": query}})
            await seen.until(3)


@scenario
async def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    maps, gadgets = api.at("configmaps"), api.at("gadgets")
    start = await api.get(maps)
    await api.post(maps, config_map("one"))
    await api.post(gadgets, gadget("one"))
    bookmarks = "&allowWatchBookmarks=true"
    for path, body in ((maps, config_map("two")), (gadgets, gadget("two"))):
        async with api.watch(path, f"{INITIAL}{bookmarks}") as seen:
            await seen.until(2)
            await api.post(path, body)
            await seen.until(3)
    await api.watched(maps, f"{INITIAL}{bookmarks}&resourceVersion=0")
    await api.watched(maps, f"{INITIAL}{bookmarks}&resourceVersion={start.version}")
    await api.watched(maps, f"{INITIAL}{bookmarks}&labelSelector=no=such")
    await api.watched(maps, INITIAL)
    await api.watched(maps, "&sendInitialEvents=true")
    await api.watched(maps, "&sendInitialEvents=false")
    await api.watched(maps, f"&resourceVersionMatch=NotOlderThan&resourceVersion={start.version}")
    await api.watched(maps, "&sendInitialEvents=true&resourceVersionMatch=Exact")
    await api.get(f"{maps}?sendInitialEvents=true")


@scenario
async def test_selector_turns_changes_into_added_and_deleted(api: Api) -> None:
    gadgets, one = api.at("gadgets"), api.at("gadgets", "one")
    start = await api.get(gadgets)
    query = f"&resourceVersion={start.version}&labelSelector=in%3Dyes"
    async with api.watch(gadgets, query) as seen:
        await api.post(gadgets, gadget("one"))
        await api.patch(one, {"metadata": {"labels": {"in": "yes"}}})
        await api.patch(one, {"spec": {"size": 4}})
        await api.patch(one, {"metadata": {"labels": {"in": "no"}}})
        await api.patch(one, {"spec": {"size": 5}})
        await api.patch(one, {"metadata": {"labels": {"in": "yes"}}})
        await api.delete(one)
        await seen.until(5)
    await api.watched(gadgets, query)


@scenario
async def test_field_selectors_limit_watches(api: Api) -> None:
    gadgets, pods = api.at("gadgets"), api.at("pods")
    start = await api.get(gadgets)
    since = f"&resourceVersion={start.version}"
    await api.post(gadgets, gadget("one"))
    await api.post(gadgets, gadget("two", {"size": 4, "mode": "none"}))
    await api.patch(f"{gadgets}/one", {"spec": {"mode": "none"}})
    await api.delete(f"{gadgets}/two")
    await api.watched(gadgets, f"{since}&fieldSelector=metadata.name%3Done")
    await api.watched(gadgets, f"{since}&fieldSelector=spec.mode%3Dnone")
    await api.watched(gadgets, f"{since}&fieldSelector=spec.size%3D4")
    await api.watched(gadgets, "&fieldSelector=metadata.name%3Done")
    await api.post(pods, pod("one", node="n-1"))
    await api.post(pods, pod("two"))
    await api.watched(pods, f"{since}&fieldSelector=spec.nodeName%3Dn-1")
    everywhere = f"&fieldSelector=metadata.namespace%3D{api.namespace}"
    await api.watched(f"/apis/{GROUP}/v1/gadgets", f"{since}{everywhere}")


@scenario
async def test_watch_of_a_path_with_a_name_is_answered_alike(api: Api) -> None:
    gadgets = api.at("gadgets")
    await api.post(gadgets, gadget("one"))
    await api.post(gadgets, gadget("two"))
    await api.watched(f"{gadgets}/one")
    await api.get(f"/apis/{GROUP}/v1/watch/namespaces/{api.namespace}/gadgets?timeoutSeconds=1")


@scenario
async def test_watch_sends_tables_and_metadata(api: Api) -> None:
    gadgets = api.at("gadgets")
    await api.post(gadgets, gadget("one"))
    await api.post(gadgets, gadget("two"))
    await api.watched(gadgets, accept=TABLE)
    await api.watched(gadgets, accept=PARTIAL)
    async with api.watch(gadgets, "&includeObject=None", accept=TABLE) as seen:
        await seen.until(2)
        await api.delete(f"{gadgets}/one")
        await seen.until(3)
    await api.watched(api.at("configmaps"), accept=TABLE)


@scenario
async def test_impossible_watches_are_refused(api: Api) -> None:
    for path in (api.at("configmaps"), api.at("gadgets")):
        for query in (
            "&resourceVersion=abc",
            "&resourceVersion=-1",
            "&labelSelector=a+in",
            "&fieldSelector=spec.nope%3Dx",
            "&fieldSelector=x",
            "&resourceVersion=0&resourceVersionMatch=NotOlderThan",
            "&limit=1&resourceVersion=0",
        ):
            await api.watched(path, query)
        await api.get(f"{path}?watch=1&timeoutSeconds=soon")
        await api.get(f"{path}?watch=maybe&timeoutSeconds=1")
        await api.get(f"{path}?watch=0")
        await api.get(f"{path}?watch=false&limit=1")


@scenario
async def test_watch_begins_before_the_definition_of_its_kind(api: Api) -> None:
    start = await api.get(api.at("configmaps"))
    group = f"{api.namespace}.example.com"
    await api.request(
        "POST", DEFINITIONS, definition("novices", "Novice", {"type": "object"}, group=group)
    )
    novices = f"/apis/{group}/v1/namespaces/{api.namespace}/novices"
    await api.until(novices, lambda answer: answer.status == 200)
    await api.watched(novices, f"&resourceVersion={start.version}")


@scenario
async def test_watch_ends_when_its_time_is_over(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("one"))
    await api.get(f"{api.at('configmaps')}?watch=1&timeoutSeconds=1")
    await api.get(f"{api.at('gadgets')}?watch=true&timeoutSeconds=1")


@scenario
async def test_namespaced_watch_does_not_see_the_neighbours(api: Api) -> None:
    other = f"{api.namespace}-b"
    await api.post("/api/v1/namespaces", {"metadata": {"name": other}})
    start = await api.get(api.at("configmaps"))
    since = f"&resourceVersion={start.version}"
    async with api.watch(api.at("configmaps"), since) as seen:
        await api.post(api.at("configmaps", ns=other), config_map("far"))
        await api.post(api.at("configmaps"), config_map("near"))
        await seen.until(1)


@scenario
async def test_finalizer_shows_as_modified_and_then_deleted(api: Api) -> None:
    gadgets, one = api.at("gadgets"), api.at("gadgets", "one")
    await api.post(gadgets, gadget("one", finalizers=["a.b/c"]))
    start = await api.get(gadgets)
    async with api.watch(gadgets, f"&resourceVersion={start.version}") as seen:
        await api.delete(one)
        await api.delete(one)
        await api.patch(one, {"metadata": {"finalizers": None}})
        await seen.until(2)


@scenario
async def test_deleted_collection_is_seen_one_by_one(api: Api) -> None:
    maps = api.at("configmaps")
    for name in ("a", "b", "c"):
        await api.post(maps, config_map(name, labels={"half": str(name < "c")}))
    start = await api.get(maps)
    async with api.watch(maps, f"&resourceVersion={start.version}") as seen:
        await api.delete(f"{maps}?labelSelector=half%3DTrue")
        await seen.until(2)
        seen.events.sort(key=lambda event: str(event["object"]["metadata"]["name"]))
