"""Answers that a host's token asks for and does not read cost little memory each, on both servers.

The embedded server bounds their number, too: tests/integration/apiserver/test_unread.py. The real
one does not: `docs/security.md` has what each costs there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest
from tests.conformance.real import TOKEN, Server
from tests.integration.apiserver.agents import SPACE, agents_of
from tests.integration.apiserver.conftest import Client, resident_mib
from tests.integration.apiserver.connections import works
from tests.integration.apiserver.objects import CONFIG_MAPS
from tests.integration.apiserver.unread import TAKEN, unread

_STORED: Final = 12
_BYTES: Final = 900_000
"""Bytes of one object: an answer with all of them has ten MiB."""
_ANSWERS: Final = 16
_MIB_OF_ALL: Final = 64
"""Two MiB for each answer; with all of it, each would cost ten."""
_WATCH: Final = f"{CONFIG_MAPS}?watch=1&resourceVersion=0"
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
_OF_AGENTS: Final = (
    f"{_ROLES}/rolebindings/maps",
    f"{_ROLES}/roles/maps",
    f"{SPACE}/pods/agent-kvm-unread?gracePeriodSeconds=0",
    f"{SPACE}/serviceaccounts/agent",
)


@pytest.fixture(params=["embedded", "real"])
def server(request: pytest.FixtureRequest, servers: tuple[Server, Server]) -> Server:
    return servers[0 if request.param == "real" else 1]


@pytest.fixture
async def admin(server: Server) -> AsyncIterator[Client]:
    """The administrator, who deletes at the end what was made: the servers are shared."""
    async with Client(server.url, TOKEN) as client:
        yield client
        for path in (*_OF_AGENTS, *(f"{CONFIG_MAPS}/big-{one}" for one in range(_STORED))):
            await client.delete(path)


async def used_mib(server: Server, admin: Client) -> float:
    """The memory that a server uses; of the real one without its garbage."""
    if not server.etcd_url:
        return sum(map(resident_mib, server.pids))
    assert (await admin.get("/debug/pprof/heap?gc=1")).status_code == 200
    lines = (await admin.get("/metrics")).text.splitlines()
    (heap,) = (line for line in lines if line.startswith("go_memstats_heap_alloc_bytes "))
    return float(heap.split()[1]) / 2**20


async def test_answers_that_a_hosts_token_does_not_read_take_little_memory_each(
    server: Server, admin: Client
) -> None:
    (agent,) = await agents_of(admin, "kvm-unread")
    for number in range(_STORED):
        body = {"metadata": {"name": f"big-{number}"}, "data": {"a": "x" * _BYTES}}
        assert (await admin.post(CONFIG_MAPS, json=body, headers=agent)).status_code == 201
    before = await used_mib(server, admin)
    async with (
        unread(admin, CONFIG_MAPS, agent, _ANSWERS) as lists,
        unread(admin, _WATCH, agent, _ANSWERS),
    ):
        await works(admin, "late")
        assert lists[0] == TAKEN
        assert await used_mib(server, admin) - before < _MIB_OF_ALL
