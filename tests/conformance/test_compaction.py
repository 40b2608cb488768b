"""Versions that are no longer kept: 410, with what a client needs to go on."""

from __future__ import annotations

from tests.conformance.compaction import compact
from tests.conformance.real import Server
from tests.conformance.samples import config_map, gadget
from tests.conformance.script import Api, Pair
from tests.conformance.targets import client_of


async def forgotten(api: Api) -> None:
    for resource in ("configmaps", "gadgets"):
        path = api.at(resource)
        for name in ("one", "two", "three"):
            body = config_map(name) if resource == "configmaps" else gadget(name, {"size": 3})
            await api.post(path, body)
        first = await api.get(f"{path}?limit=1")
        old, token = first.version, first["metadata"]["continue"]
        for value in ("b", "c"):
            await api.patch(f"{path}/one", {"metadata": {"labels": {"a": value}}})
        async with client_of(api.server) as client:
            await compact(api.server, client)
        await api.get(f"{path}?limit=1&continue={token}")
        await api.get(f"{path}?resourceVersion={old}&resourceVersionMatch=Exact")
        await api.get(f"{path}?resourceVersion={old}&resourceVersionMatch=NotOlderThan")
        await api.get(f"{path}?resourceVersion={old}")
        await api.get(f"{path}/one?resourceVersion={old}")
        await api.watched(path, f"&resourceVersion={old}")
        await api.watched(path, f"&resourceVersion={old}&allowWatchBookmarks=true")
        now = (await api.get(path)).version
        await api.watched(path, f"&resourceVersion={now}")


async def test_compacted_versions_are_gone(forgetful: tuple[Server, Server]) -> None:
    real, ours = forgetful
    async with client_of(real) as real_client, client_of(ours) as our_client:
        pair = Pair((real, real_client), (ours, our_client))
        await pair.play(forgotten, "test_compacted_versions_are_gone")


async def test_an_expired_token_comes_with_a_fresh_one(forgetful: tuple[Server, Server]) -> None:
    """The rest of the list, at another version, for clients that take that."""

    async def script(api: Api) -> None:
        path = api.at("configmaps")
        for name in ("one", "two", "three"):
            await api.post(path, config_map(name))
        token = (await api.get(f"{path}?limit=1"))["metadata"]["continue"]
        await api.post(path, config_map("twice"))
        async with client_of(api.server) as client:
            await compact(api.server, client)
        refused = await api.get(f"{path}?limit=1&continue={token}")
        fresh = refused["metadata"]["continue"]
        await api.get(f"{path}?limit=9&continue={fresh}")

    real, ours = forgetful
    async with client_of(real) as real_client, client_of(ours) as our_client:
        pair = Pair((real, real_client), (ours, our_client))
        await pair.play(script, "test_an_expired_token_comes_with_a_fresh_one")
