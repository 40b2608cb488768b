"""An OpenStack whose certificates a private CA has signed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest
import trustme
from tests.integration.compute.conftest import Adapter
from tests.openstack.environment import set_account
from tests.simulated_openstack.serve import serve
from tests.simulated_openstack.world import World
from tests.sockets import left_to_the_collector

from hypercobalt.compute.errors import UnreachableError
from hypercobalt.errors import ConfigurationError


class Site:
    """A simulated OpenStack with TLS, and files of certificates."""

    def __init__(self, directory: Path, adapter: Adapter, ours: Path) -> None:
        self.directory, self.adapter, self.ours = directory, adapter, ours

    def strange(self) -> Path:
        """The file of a CA that has signed nothing here."""
        place = self.directory / "strange.pem"
        trustme.CA().cert_pem.write_to_path(place)
        return place

    async def answers(self) -> bool:
        found = await self.adapter.nova().hosts.get("node1")
        return found is not None and found.name == "node1"


@pytest.fixture(scope="module", autouse=True)
def abandoned_sockets() -> Generator[None]:
    """Collect the sockets of failed handshakes, which outlive a test's loop."""
    with left_to_the_collector():
        yield


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    authority, ours, mine = trustme.CA(), tmp_path / "ca.pem", tmp_path / "server.pem"
    authority.cert_pem.write_to_path(ours)
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(mine)
    world = World()
    world.add_host("node1")
    async with serve(world, certificate=mine) as simulation:
        set_account(monkeypatch, simulation.admin)
        adapter = Adapter(simulation)
        yield Site(tmp_path, adapter, ours)
        for nova in adapter.made:
            await nova.close()


async def test_a_private_authority_is_taken_from_the_environment(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_CACERT", str(site.ours))
    assert await site.answers()


async def test_a_private_authority_is_taken_from_clouds_yaml(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account = site.adapter.simulation.admin
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(
        f"clouds: {{lab: {{region_name: RegionOne, cacert: {site.ours}, auth: {{auth_url: "
        f"'{account.auth_url}', username: admin, password: secret, project_name: admin, "
        "user_domain_id: default, project_domain_id: default}}}"
    )
    set_account(monkeypatch, account, OS_CLOUD="lab", OS_CLIENT_CONFIG_FILE=str(clouds))
    for name in ("OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD"):
        monkeypatch.delenv(name)
    assert await site.answers()


@pytest.mark.parametrize("configured", [False, True], ids=["none", "another"])
async def test_service_without_its_authority_is_reported_and_gets_no_password(
    site: Site, monkeypatch: pytest.MonkeyPatch, configured: bool
) -> None:
    if configured:
        monkeypatch.setenv("OS_CACERT", str(site.strange()))
    nova = site.adapter.nova()
    with pytest.raises(UnreachableError) as caught:
        await nova.hosts.get("node1")
    for text in (str(caught.value), nova.trouble):
        assert "certificate is not accepted: unable to get local issuer certificate" in text
        assert "OS_CACERT" in text
        assert site.adapter.simulation.auth_url.removeprefix("https://").partition("/")[0] in text
    assert site.adapter.simulation.script.count() == 0


async def test_an_authority_that_is_mended_is_taken_without_a_restart(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = site.strange()
    monkeypatch.setenv("OS_CACERT", str(place))
    nova = site.adapter.nova()
    with pytest.raises(UnreachableError):
        await nova.hosts.get("node1")
    place.write_bytes(site.ours.read_bytes())
    site.adapter.clock.ahead += 10
    assert await nova.hosts.get("node1") is not None


async def test_a_file_that_vanishes_later_is_reported(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = site.directory / "mine.pem"
    place.write_bytes(site.ours.read_bytes())
    monkeypatch.setenv("OS_CACERT", str(place))
    nova = site.adapter.nova()
    place.unlink()
    with pytest.raises(UnreachableError, match=r"mine\.pem"):
        await nova.hosts.get("node1")


@pytest.mark.parametrize(
    ("variable", "content"),
    [
        ("OS_CACERT", None),
        ("OS_CACERT", "no certificate"),
        ("OS_CERT", None),
        ("OS_CERT", "no certificate"),
    ],
)
async def test_a_file_that_cannot_be_used_is_reported_at_the_start(
    site: Site, monkeypatch: pytest.MonkeyPatch, variable: str, content: str | None
) -> None:
    place = site.directory / "wrong.pem"
    if content is not None:
        place.write_text(content)
    monkeypatch.setenv(variable, str(place))
    with pytest.raises(ConfigurationError, match=rf"{variable}.*wrong\.pem.*PEM"):
        site.adapter.nova()
