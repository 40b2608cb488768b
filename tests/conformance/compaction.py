"""Make a server forget its history up to now, as it does by itself after some minutes."""

from __future__ import annotations

import json

import httpx2
from tests.conformance.real import TOKEN, Server
from tests.conformance.samples import config_map

HISTORY = 8 * 2**20  # bytes of events that the embedded server keeps at most
LARGE = 900_000  # bytes of one object


async def compact(server: Server, client: httpx2.AsyncClient) -> None:
    """Compact every version before the present one."""
    if server.etcd_url:
        async with httpx2.AsyncClient(base_url=server.etcd_url, trust_env=False) as etcd:
            now = await etcd.post("/v3/kv/range", json={"key": "AA=="})
            revision = now.json()["header"]["revision"]
            done = await etcd.post("/v3/kv/compaction", json={"revision": revision})
            assert done.status_code == httpx2.codes.OK, done.text
        return
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    maps = "/api/v1/namespaces/default/configmaps"
    for number in range(HISTORY // LARGE + 2):  # later changes push out earlier ones
        body = json.dumps(config_map(f"large-{number}", {"a": "x" * LARGE}))
        await client.post(maps, content=body, headers=headers)
        await client.delete(f"{maps}/large-{number}", headers=headers)
