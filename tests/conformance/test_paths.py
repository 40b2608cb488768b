"""Paths that are almost those of a resource: doubled, trailing and dotted slashes."""

from __future__ import annotations

from tests.conformance.samples import config_map
from tests.conformance.script import Api, scenario


@scenario
async def test_odd_slashes_in_paths_are_answered_alike(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("one"))
    one = api.at("configmaps", "one")
    for path in (
        "//api/v1",
        "//api",
        "//apis",
        "/api//v1",
        "/api/v1/",
        "/api/",
        "/apis/",
        "/apis/apps/",
        "/apis/apps//v1",
        "/apis/apps/v1/",
        f"/{one}",
        f"{one}/",
        f"{one}//",
        one.replace("/configmaps", "//configmaps"),
        one.replace("/namespaces", "//namespaces"),
        one.replace("/one", "//one"),
        one.replace("/api/", "/./api/"),
        one.replace("/configmaps", "/x/../configmaps"),
        one.replace("/configmaps", "%2Fconfigmaps"),
        "/api/v1/namespaces/",
        "/api/v1/namespaces//configmaps",
        "//version",
        "/version/",
        "//readyz",
        "/readyz/",
        "//",
    ):
        answer = await api.request("GET", f"{api.server.url}{path}")
        shown = answer.body if answer.status >= 300 else ""
        api.record(f"GET {path}", [answer.status, answer.headers.get("location", ""), shown])
