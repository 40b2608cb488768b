"""A person whose kubeconfig has a token of another issuer: it goes to the API server alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from tests.integration.runtime.scripted import Reply, Request, ScriptedServer

from hypercobalt.cli.ports import ports

NODE, SPACE, TOKEN = "kvm-1", "ovn-system", "eyJ.of-the-issuer"
WHO = "https://idp.example.org#jane"


@dataclass
class Site:
    """An API server that authenticates tokens, and the address of an agent."""

    server: ScriptedServer
    agent: asyncio.Server
    connections: int = 0
    reviewed: list[Request] = field(default_factory=list[Request])

    def kubeconfig(self, folder: Path) -> Path:
        config = {
            "clusters": [{"name": "c", "cluster": {"server": self.server.url}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        return file


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    server = ScriptedServer()
    await server.start()
    made: Site

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        writer.transport.abort()

    agent = await asyncio.start_server(accept, "127.0.0.1", 0)
    made = Site(server, agent)

    def review(request: Request) -> Reply | None:
        if not request.path.endswith("/selfsubjectreviews"):
            return None
        made.reviewed.append(request)
        return Reply(201, {"metadata": {}, "status": {"userInfo": {"username": WHO}}})

    server.faults.append(review)
    url = f"https://127.0.0.1:{agent.sockets[0].getsockname()[1]}"
    status = {"diagnostics": {"url": url, "certificateSHA256": "0" * 64}}
    spec = {"nodeRef": {"name": NODE}}
    meta = {"name": NODE, "namespace": SPACE}
    server.put("ovsnodes", {"metadata": meta, "spec": spec, "status": status})
    yield made
    agent.close()
    await server.stop()


async def test_token_of_another_issuer_is_shown_to_no_agent(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = site.kubeconfig(tmp_path)
    assert await asyncio.to_thread(ports, NODE, kubeconfig=kubeconfig) == 2
    assert capsys.readouterr().err == (
        f"cobalt ports: the kubeconfig's user {WHO} has only a token, which is not sent to a host; "
        "use a kubeconfig with a client certificate, or one of a ServiceAccount with the rights "
        "(docs/security.md, Diagnostics)\n"
    )
    assert site.connections == 0
    assert [one.headers["authorization"] for one in site.reviewed] == [f"Bearer {TOKEN}"]
    assert not [one for one in site.server.requests if one.path.endswith("/token")]
