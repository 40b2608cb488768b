"""Who may use an agent, as a real kube-apiserver decides: the cases of the embedded one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from tests.conformance.prepare import install_definitions, own_definitions
from tests.conformance.real import real_server
from tests.contracts.agent_access import (
    CASES,
    SCRAPES,
    Case,
    Engine,
    Scrape,
    agent,
    let_scrape,
    settled,
    shown_by,
)

from hypercobalt.pki.certificates import make_ca
from hypercobalt.runtime import Kube, load_connection
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.pinned import Pinned

pytestmark = pytest.mark.asyncio(loop_scope="module")

Site = tuple[Pinned, dict[str, Credential], Kube]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An agent beside a server that publishes its client CA by itself."""
    folder, ca = tmp_path_factory.mktemp("real"), make_ca("people")
    (folder / "people.crt").write_bytes(ca.certificate)
    flags = {"client-ca-file": folder / "people.crt"}
    async with AsyncExitStack() as stack:
        server = stack.enter_context(real_server(folder, more=flags))
        install_definitions(server, own_definitions())
        kube = await stack.enter_async_context(Kube(load_connection(server.kubeconfig)))
        serving = await stack.enter_async_context(agent(kube, Engine()))
        shown = await shown_by(kube, ca, make_ca("another"))
        await settled(serving, shown)
        await let_scrape(kube)
        yield serving, shown, kube


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
async def test_agent_admits_or_refuses_each_caller(site: Site, case: Case) -> None:
    serving, shown, _ = site
    await case.check(serving, shown)


@pytest.mark.parametrize("scrape", SCRAPES, ids=lambda scrape: scrape.name.replace(" ", "-"))
async def test_metrics_are_for_tokens_of_their_audience(site: Site, scrape: Scrape) -> None:
    *_, kube = site
    await scrape.check(kube)
