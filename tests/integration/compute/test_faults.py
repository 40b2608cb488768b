"""Faults of OpenStack: each is reported with its cause, and the adapter recovers by itself."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.compute.conftest import Adapter
from tests.openstack.environment import set_account
from tests.simulated_openstack import identity
from tests.simulated_openstack.identity import ELSEWHERE, REGION
from tests.simulated_openstack.script import Fault

from hypercobalt.adapters.openstack import transport
from hypercobalt.adapters.openstack.errors import NoAnswerError
from hypercobalt.adapters.openstack.request import Request
from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.compute.model import Host
from hypercobalt.compute.nova.service import Nova
from hypercobalt.errors import ConfigurationError

LISTING = "compute GET /os-hypervisors/detail"
SERVICE = "compute PUT /os-services/{id}"
TOKENS = "identity POST /auth/tokens"


async def host(nova: Nova, name: str = "node1") -> Host:
    found = await nova.hosts.get(name, fresh=True)
    assert found is not None
    return found


async def fails(nova: Nova) -> UnreachableError:
    with pytest.raises(UnreachableError) as caught:
        await host(nova)
    return caught.value


@pytest.mark.parametrize(
    "fault",
    [
        Fault(LISTING, code=503, times=2),
        Fault(LISTING, code=500, times=2),
        Fault(LISTING, cut=True, times=2),
        Fault(LISTING, code=200, body=b"<html>", times=0),
    ],
    ids=["503", "500", "cut", "none"],
)
async def test_a_read_is_tried_again(adapter: Adapter, fault: Fault) -> None:
    nova = adapter.nova()
    expected = 1 + (fault.times or 0)
    adapter.simulation.script.add(fault)
    assert (await host(nova)).name == "node1"
    assert adapter.simulation.script.count(LISTING) == expected
    assert nova.trouble == ""


async def test_a_read_that_fails_three_times_is_given_up(adapter: Adapter) -> None:
    nova = adapter.nova()
    adapter.simulation.script.add(Fault(LISTING, code=503))
    error = await fails(nova)
    assert "find host node1" in str(error)
    assert "503" in str(error)
    assert adapter.simulation.script.count(LISTING) == 3


@pytest.mark.parametrize(
    "fault",
    [
        Fault(SERVICE, code=500),
        Fault(SERVICE, code=503),
        Fault(SERVICE, cut=True, after=True),
    ],
    ids=["500", "503", "cut"],
)
async def test_a_write_is_made_once(adapter: Adapter, fault: Fault) -> None:
    nova = adapter.nova()
    found = await host(nova)
    adapter.simulation.script.add(fault)
    with pytest.raises(UnreachableError, match="disable host node1"):
        await nova.hosts.disable(found, "test")
    assert adapter.simulation.script.count(SERVICE) == 1


async def test_a_refused_write_has_the_requested_wait(adapter: Adapter) -> None:
    nova = adapter.nova()
    found = await host(nova)
    adapter.simulation.script.add(Fault(SERVICE, code=429, headers={"Retry-After": "17"}))
    with pytest.raises(UnreachableError) as caught:
        await nova.hosts.disable(found, "test")
    assert caught.value.retry_after == timedelta(seconds=17)


async def test_a_read_is_retried_after_the_requested_wait(adapter: Adapter) -> None:
    nova = adapter.nova()
    await host(nova)
    adapter.simulation.script.add(Fault(LISTING, code=429, headers={"Retry-After": "1"}, times=1))
    began = adapter.clock()
    assert (await host(nova)).name == "node1"
    assert adapter.clock() - began >= 1


async def test_a_refusal_has_novas_message(adapter: Adapter) -> None:
    nova = adapter.nova()
    found = await host(nova)
    body = b'{"badRequest": {"code": 400, "message": "Service is in use"}}'
    adapter.simulation.script.add(Fault(SERVICE, code=400, body=body))
    with pytest.raises(
        RefusedError, match=r"enable host node1: .*400: Service is in use"
    ) as caught:
        await nova.hosts.enable(found)
    assert caught.value.code == 400
    assert nova.trouble == ""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"null",
        b'{"hypervisors": null}',
        b'{"hypervisors": [{"id": 7}]}',
        b'{"hypervisors": [',
        b"\xff\xfe",
    ],
)
async def test_garbage_is_reported_as_unreadable(adapter: Adapter, body: bytes) -> None:
    nova = adapter.nova()
    adapter.simulation.script.add(Fault(LISTING, code=200, body=body))
    error = await fails(nova)
    assert "cannot be read" in str(error)


@pytest.mark.parametrize("body", [b"default backend - 404", b"", b"<html>", b"no route"])
async def test_a_404_that_is_not_novas_is_not_taken_for_absence(
    adapter: Adapter, body: bytes
) -> None:
    nova, script = adapter.nova(), adapter.simulation.script
    found = await host(nova)
    for call in (LISTING, "compute GET /servers/detail", "compute DELETE /os-services/{id}"):
        script.add(Fault(call, code=404, body=body))
    assert "not JSON" in str(await fails(nova))
    with pytest.raises(UnreachableError, match="not JSON"):
        await nova.smoke_tests.find("ohooc--node1")
    with pytest.raises(UnreachableError, match="not JSON"):
        await nova.hosts.remove(found)
    assert script.count("placement DELETE /resource_providers/{id}") == 0
    assert nova.trouble == ""


async def test_server_groups_that_may_not_be_listed_hold_up_no_servers(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    server = world.add_server("node1")
    adapter.simulation.script.add(Fault("compute GET /os-server-groups", code=403))
    assert [one.id for one in await nova.moves.servers("node1")] == [server.id]
    assert "list the server groups" in nova.moves.groups_refused
    assert "403" in nova.moves.groups_refused


async def test_refusals_are_requested_as_json(adapter: Adapter) -> None:
    """webob, which services are made of, answers other clients with a page."""
    seen = set[str]()
    adapter.simulation.script.before("*", lambda request: seen.add(request.headers["accept"]))
    found = await host(nova := adapter.nova())
    assert await nova.traits.get(found.hypervisor_id, fresh=True) is not None
    assert seen == {"application/json"}


@pytest.mark.parametrize("code", [200, 201])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>Sign in</body></html>",
        b"null",
        b"[]",
        b"{}",
        b'{"token": null}',
        b'{"token": []}',
        b'{"token": {}}',
        b'{"token": {"expires_at": "tomorrow", "catalog": 7}}',
        b'{"token": {"expires_at": "2099-01-01T00:00:00Z", "catalog": [{"type": 7}]}}',
        b'{"token": {"expires_at"',
        b"\xff\xfe",
    ],
)
async def test_garbage_in_place_of_a_token_is_reported(
    adapter: Adapter, code: int, body: bytes
) -> None:
    headers = {"X-Subject-Token": "gAAAAAB-unknown"}
    fault = adapter.simulation.script.add(Fault(TOKENS, code=code, body=body, headers=headers))
    nova = adapter.nova()
    assert "Keystone" in str(await fails(nova))
    assert "gAAAAAB" not in nova.trouble
    adapter.simulation.script.faults.remove(fault)
    adapter.clock.ahead += 10
    assert (await host(nova)).name == "node1"


async def test_a_listing_whose_pages_never_end_is_given_up(adapter: Adapter) -> None:
    nova = adapter.nova()
    body = (
        b'{"servers": [], "servers_links": '
        b'[{"rel": "next", "href": "http://elsewhere.example/servers?marker=1"}]}'
    )
    adapter.simulation.script.add(Fault("compute GET /servers/detail", code=200, body=body))
    with pytest.raises(UnreachableError, match="pages"):
        await nova.moves.servers("node1")


async def test_an_unanswered_call_ends_at_the_deadline(adapter: Adapter) -> None:
    nova = adapter.nova()
    await host(nova)
    adapter.simulation.script.add(Fault(LISTING, hang=True))
    request = Request("read", "compute", "GET", "/os-hypervisors/detail", deadline=0.3)
    with pytest.raises(NoAnswerError, match=r"read: .* (did not answer within|timed out)"):
        await adapter.clients[0].call(request)


async def test_a_listing_of_the_fleet_may_take_as_long_as_its_deadline(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    nova = adapter.nova()
    await host(nova)
    monkeypatch.setattr(transport, "READ_SECONDS", 0.2)
    adapter.simulation.script.add(Fault(LISTING, delay=0.5))
    assert (await host(nova)).name == "node1"
    assert adapter.simulation.script.count(LISTING) == 2


async def test_calls_that_hang_do_not_delay_closing(adapter: Adapter) -> None:
    nova = adapter.nova()
    await host(nova)
    requested = asyncio.Event()
    adapter.simulation.script.add(Fault(LISTING, after=True, hang=True))
    adapter.simulation.script.after(LISTING, lambda _: requested.set())
    waiting = asyncio.create_task(nova.hosts.get("node1"))
    await requested.wait()
    waiting.cancel()
    async with asyncio.timeout(1):
        await nova.close()


async def test_a_service_that_is_away_gets_few_calls_and_comes_back(adapter: Adapter) -> None:
    nova = adapter.nova()
    script = adapter.simulation.script
    fault = script.add(Fault("compute *", code=503))
    await fails(nova)
    await fails(nova)
    calls = script.count("compute *")
    assert "503" in nova.trouble
    for _ in range(20):
        error = await fails(nova)
        assert "not sent" in str(error)
        assert error.retry_after is not None
    assert script.count("compute *") == calls

    adapter.clock.ahead += 10
    assert nova.trouble == ""  # the next call is sent
    await fails(nova)
    assert script.count("compute *") == calls + 1  # one probe
    assert "503" in nova.trouble

    script.faults.remove(fault)
    adapter.clock.ahead += 10
    assert (await host(nova)).name == "node1"
    assert nova.trouble == ""


async def test_outage_of_one_service_leaves_the_others_usable(adapter: Adapter) -> None:
    nova = adapter.nova()
    found = await host(nova)
    adapter.simulation.script.add(Fault("placement *", cut=True))
    for _ in range(3):
        with pytest.raises(UnreachableError, match="placement"):
            await nova.traits.get(found.hypervisor_id, fresh=True)
    assert "placement" in nova.trouble
    assert (await host(nova)).name == "node1"


async def test_openstack_away_at_the_start_is_found_when_it_comes(adapter: Adapter) -> None:
    script = adapter.simulation.script
    fault = script.add(Fault("*", cut=True))
    nova = adapter.nova()
    assert "Keystone does not answer" in str(await fails(nova))
    assert "Keystone does not answer" in nova.trouble
    script.faults.remove(fault)
    adapter.clock.ahead += 10
    assert (await host(nova)).name == "node1"
    assert nova.trouble == ""


async def test_an_expired_token_is_renewed_once_for_all(adapter: Adapter) -> None:
    nova = adapter.nova()
    found = await host(nova)
    for round_ in range(1, 3):
        adapter.simulation.tokens.revoke_all()
        async with asyncio.TaskGroup() as group:
            for _ in range(32):
                group.create_task(nova.traits.get(found.hypervisor_id, fresh=True))
        assert adapter.simulation.script.count(TOKENS) == 1 + round_
    assert nova.trouble == ""


async def test_a_service_that_refuses_fresh_tokens_does_not_storm_keystone(
    adapter: Adapter,
) -> None:
    nova = adapter.nova()
    await host(nova)
    adapter.simulation.script.add(Fault("compute *", code=401))
    for _ in range(20):
        await fails(nova)
    assert adapter.simulation.script.count(TOKENS) <= 10
    assert "fresh token" in nova.trouble


async def test_a_wrong_password_is_reported_and_not_tried_by_every_caller(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_PASSWORD", "wrong")
    nova = adapter.nova()
    for _ in range(20):
        await fails(nova)
    assert adapter.simulation.script.count(TOKENS) == 1
    assert "no token to admin in admin" in nova.trouble
    assert "wrong" not in nova.trouble
    monkeypatch.setenv("OS_PASSWORD", "secret")  # as clouds.yaml would change
    adapter.clock.ahead += 10
    assert (await host(nova)).name == "node1"


async def test_a_wrong_region_is_reported_with_its_name(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_REGION_NAME", "Nowhere")
    nova = adapter.nova()
    assert "region Nowhere" in str(await fails(nova))
    for interface in (REGION, ELSEWHERE):
        assert f"{interface} (admin, internal, public)" in nova.trouble
    assert "OS_REGION_NAME" in nova.trouble


async def test_a_catalogue_that_changes_is_seen_with_the_next_token(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    nova, calls = adapter.nova(), adapter.simulation.script.calls
    await host(nova)
    monkeypatch.setattr(identity, "REGION", ELSEWHERE)
    monkeypatch.setattr(identity, "ELSEWHERE", REGION)
    await host(nova)
    assert not any(call.startswith("elsewhere") for call in calls)
    adapter.simulation.tokens.revoke_all()
    await fails(nova)
    assert any(call.startswith("elsewhere") for call in calls)


async def test_configured_region_selects_the_endpoints(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_REGION_NAME", ELSEWHERE)
    nova = adapter.nova()
    await fails(nova)
    assert adapter.simulation.script.count("compute *") == 0
    assert adapter.simulation.script.count("elsewhere *") > 0


async def test_missing_account_is_reported_with_what_to_set(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OS_AUTH_URL")
    with pytest.raises(ConfigurationError, match="OS_CLOUD"):
        adapter.nova()


async def test_a_cloud_is_taken_from_clouds_yaml(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account = adapter.simulation.admin
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(
        f"clouds: {{lab: {{region_name: RegionOne, auth: {{auth_url: '{account.auth_url}', "
        "username: admin, password: secret, project_name: admin, user_domain_id: default, "
        "project_domain_id: default}}}"
    )
    set_account(monkeypatch, account, OS_CLOUD="lab", OS_CLIENT_CONFIG_FILE=str(clouds))
    for name in ("OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD"):
        monkeypatch.delenv(name)
    assert (await host(adapter.nova())).name == "node1"


@pytest.mark.parametrize("printed", ["secret", "secret\n"])
async def test_a_command_gives_the_password(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: str
) -> None:
    monkeypatch.delenv("OS_PASSWORD")
    (tmp_path / "password").write_text(printed)
    nova = adapter.nova(password_command=f"cat {tmp_path}/password")
    assert (await host(nova)).name == "node1"


async def test_a_password_command_is_run_again_after_a_refusal(
    adapter: Adapter, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("old")
    nova = adapter.nova(password_command=f"cat {tmp_path}/password")
    await fails(nova)
    (tmp_path / "password").write_text("secret")
    adapter.clock.ahead += 10
    assert (await host(nova)).name == "node1"


@pytest.mark.parametrize(
    "command", ["echo hidden; exit 3", "printf 'hidden\\377'", "nonexistent-command-hidden"]
)
async def test_a_command_that_fails_is_reported_without_its_output(
    adapter: Adapter, command: str
) -> None:
    nova = adapter.nova(password_command=command)
    error = await fails(nova)
    assert "OS_PW_CMD" in str(error)
    assert "hidden" not in str(error)
    assert "OS_PW_CMD" in nova.trouble


async def test_the_password_is_in_no_log(adapter: Adapter, written_logs: io.StringIO) -> None:
    logging.getLogger().setLevel(logging.DEBUG)
    nova = adapter.nova(password_command="echo secret")
    await nova.hosts.disable(await host(nova), "test")
    text = written_logs.getvalue()
    assert "disable host node1" in text
    assert "secret" not in text.replace("hw:tpm_secret_security", "")
    assert "gAAAAAB" not in text


def answers(version: str) -> Callable[[str], bytes]:
    return lambda oldest: (
        f'{{"version": {{"id": "v2.1", "version": "{version}", "min_version": "{oldest}"}}}}'
    ).encode()


async def test_a_nova_that_is_too_old_is_reported(adapter: Adapter) -> None:
    nova = adapter.nova()
    fault = adapter.simulation.script.add(
        Fault("compute GET /", code=200, body=answers("2.60")("2.1"))
    )
    assert "2.1 to 2.60" in str(await fails(nova))
    assert "needed is one of 2.65 to 2.98" in nova.trouble
    adapter.simulation.script.faults.remove(fault)  # Nova was upgraded
    assert (await host(nova)).name == "node1"
    assert nova.trouble == ""


@pytest.mark.parametrize(("offered", "requested"), [("2.79", "2.79"), ("2.96", "2.87")])
async def test_the_newest_common_version_is_requested(
    adapter: Adapter, offered: str, requested: str
) -> None:
    nova, seen = adapter.nova(), list[str]()
    script = adapter.simulation.script
    script.add(Fault("compute GET /", code=200, body=answers(offered)("2.1")))
    script.after(LISTING, lambda request: seen.append(".".join(map(str, request.version))))
    await host(nova)
    assert seen == [requested]


async def test_calls_are_counted_by_service_method_and_code(adapter: Adapter) -> None:
    nova = adapter.nova()
    await host(nova)
    adapter.simulation.script.add(Fault(LISTING, cut=True, times=1))
    await host(nova)

    def calls(code: str) -> float | None:
        labels = {"service": "compute", "method": "GET", "code": code}
        return adapter.registry.get_sample_value("hypercobalt_openstack_requests_total", labels)

    assert calls("200") == 3  # versions, and two listings
    assert calls("<error>") == 1
