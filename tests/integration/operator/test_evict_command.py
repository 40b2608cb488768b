"""`cobalt evict`, `maintain`, `resume` and `explain` against a running operator."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.integration.operator.eviction_world import (
    add_eviction_of,
    add_hypervisor,
    evicting,
    until_ended,
    until_it,
    world,
)

from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.eviction import Eviction, has_ended
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import SERVER, Migration, MigrationSpec
from hypercobalt.api.times import micro_time
from hypercobalt.cli import api_command, exit_codes
from hypercobalt.cli.evict import evict
from hypercobalt.cli.explain import explain
from hypercobalt.cli.maintain import maintain, resume
from hypercobalt.compute.fake.script import Script
from hypercobalt.operator.election import election, lease_name
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

COBALT = Path(sys.executable).with_name("cobalt")


async def test_a_host_is_emptied_while_one_watches(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compute = world(name)
    for server in compute.fill(3):
        compute.moves.script(server.id, Script(seconds=0.3))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        code = await asyncio.to_thread(
            evict, name, watch=True, reason="new kernel", parallelism=2, kubeconfig=kubeconfig
        )
    assert code == 0
    assert "eviction completed successfully: 3 instances left" in capsys.readouterr().out
    host = await kube.get(Hypervisor, name)
    assert host is not None
    assert (host.spec.maintenance, host.spec.maintenanceReason) == ("manual", "new kernel")
    made = await kube.get(Eviction, name)
    assert made is not None
    assert (made.spec.parallelism, made.spec.reason) == (2, "new kernel")
    assert compute.moves.most_at_once == 2


async def test_instances_that_could_not_be_moved_are_listed_and_the_exit_code_is_failure(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compute = world(name)
    (server,) = compute.fill(1, status="SUSPENDED")
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        code = await asyncio.to_thread(evict, name, watch=True, kubeconfig=kubeconfig)
    assert code == exit_codes.FAILED
    out = capsys.readouterr().out
    assert server.id in out
    assert "resume or stop it" in out


def _is_left_by_the_operator(eviction: Eviction) -> bool:
    """Until then the command refuses to replace it, as another test shows."""
    return has_ended(eviction.status) and not eviction.metadata.finalizers


async def test_a_failed_eviction_is_replaced(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compute = world(name)
    (server,) = compute.fill(1, status="SUSPENDED")
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        await until_it(kube, name, _is_left_by_the_operator)
        compute.moves.change(server.id, status="ACTIVE", running=True)
        compute.moves.script(server.id, Script(seconds=0.1))
        code = await asyncio.to_thread(evict, name, watch=True, kubeconfig=kubeconfig)
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("partial", [False, True], ids=["of the whole host", "of one instance"])
async def test_an_eviction_that_succeeded_before_the_maintenance_is_replaced(
    kube: Kube, kubeconfig: Path, name: str, *, partial: bool
) -> None:
    compute = world(name)
    first, second = compute.fill(2)
    for server in (first, second):
        compute.moves.script(server.id, Script(seconds=0.1))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name, instances=(first.id,) if partial else ())
        await until_it(kube, name, _is_left_by_the_operator)
        compute.fill(1)
        assert await asyncio.to_thread(evict, name, watch=True, kubeconfig=kubeconfig) == 0
    assert compute.moves.on(name) == ()


async def test_a_host_whose_last_eviction_is_not_gone_yet_is_reported(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compute = world(name)
    (server,) = compute.fill(1, status="SHUTOFF")
    compute.moves.script(server.id, Script(seconds=60))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        await until_it(
            kube, name, lambda e: any(i.phase == "Migrating" for i in e.status.instances)
        )
        await kube.delete(Eviction, name)
        await until_ended(kube, name)
        code = await asyncio.to_thread(evict, name, watch=True, kubeconfig=kubeconfig)
    assert code == exit_codes.INVALID_REQUEST
    err = capsys.readouterr().err
    assert server.id in err
    assert "the operator creates a new one" in err


async def test_an_eviction_of_something_else_under_the_hosts_name_is_not_taken_for_its(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await add_hypervisor(kube, name)
    await add_eviction_of(kube, name, instances=(str(uuid.uuid4()),))
    assert await asyncio.to_thread(evict, name, kubeconfig=kubeconfig) == exit_codes.INVALID_REQUEST
    assert "moves only some instances" in capsys.readouterr().err
    host = await kube.get(Hypervisor, name)
    assert host is not None
    assert not host.spec.maintenance


async def test_some_instances_leave_a_host_in_service(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    compute.moves.disabled.clear()
    first, second = compute.fill(2)
    await add_hypervisor(kube, name, disabled=False)
    async with evicting(kubeconfig, compute):
        code = await asyncio.to_thread(
            evict, name, watch=True, instances=first.id, kubeconfig=kubeconfig
        )
    assert code == 0
    assert [server.id for server in compute.moves.on(name)] == [second.id]
    host = await kube.get(Hypervisor, name)
    assert host is not None
    assert not host.spec.maintenance


@pytest.mark.parametrize(
    ("mode", "wanted", "expected"),
    [
        pytest.param(
            "", {"instances": "no-uuid"}, "'no-uuid' is not an instance UUID", id="no UUID"
        ),
        pytest.param(
            "", {"parallelism": 0}, "--parallelism 0: must be 1 or more", id="no place for any"
        ),
        pytest.param("", {"reason": " "}, "--reason must not be empty", id="no reason"),
        pytest.param("ha", {}, "high-availability", id="a host that is dead"),
    ],
)
async def test_impossible_evictions_are_refused_with_the_reason(
    kube: Kube,
    kubeconfig: Path,
    name: str,
    *,
    capsys: pytest.CaptureFixture[str],
    mode: str,
    wanted: dict[str, object],
    expected: str,
) -> None:
    await add_hypervisor(kube, name, spec=HypervisorSpec(maintenance=mode))
    code = await asyncio.to_thread(evict, name, kubeconfig=kubeconfig, **wanted)  # type: ignore[arg-type]
    assert code == exit_codes.INVALID_REQUEST
    assert expected in capsys.readouterr().err
    assert await kube.get(Eviction, name) is None


async def test_an_unknown_host_is_refused_with_those_there_are(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await add_hypervisor(kube, name)
    assert (
        await asyncio.to_thread(evict, "no-such-host", kubeconfig=kubeconfig)
        == exit_codes.INVALID_REQUEST
    )
    assert name in capsys.readouterr().err


async def test_ctrl_c_leaves_the_eviction_running(kube: Kube, kubeconfig: Path, name: str) -> None:
    compute = world(name)
    for server in compute.fill(2):
        compute.moves.script(server.id, Script(seconds=3))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        command = await asyncio.create_subprocess_exec(
            *(str(COBALT), "evict", name, "--watch"),
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert command.stdout is not None
        async with asyncio.timeout(20):
            while b"migrating" not in (line := await command.stdout.readline()):
                assert line, "it ended"
        command.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(command.communicate(), 20)
        assert command.returncode == exit_codes.INTERRUPTED
        assert f"the Eviction of {name} continues".encode() in err
        done = await until_ended(kube, name)
    assert done.status.progress is not None
    assert done.status.progress.done == 2


async def test_the_lab_of_this_directory_is_found(
    kube: Kube,
    kubeconfig: Path,
    name: str,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await add_hypervisor(kube, name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    api_command.LAB.parent.mkdir(parents=True)
    api_command.LAB.write_bytes(kubeconfig.read_bytes())
    assert await asyncio.to_thread(evict, name) == 0
    assert f"cobalt explain eviction/{name}" in capsys.readouterr().out


async def test_explain_shows_what_is_waited_for(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compute = world(name)
    compute.fill(1)
    await add_hypervisor(kube, name, disabled=False)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: bool(e.status.checks))
        code = await asyncio.to_thread(explain, f"eviction/{name}", kubeconfig=kubeconfig)
    assert code == 0
    out = capsys.readouterr().out
    assert "hypervisor not disabled" in out
    assert f"cobalt maintain {name}" in out


async def test_explain_of_a_name_shows_the_host_and_its_eviction_and_who_reports(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await add_hypervisor(kube, name)
    await add_eviction_of(kube, name)
    spec = LeaseSpec(
        holderIdentity="agent", leaseDurationSeconds=40, renewTime=micro_time(datetime.now(UTC))
    )
    meta = ObjectMeta(name=f"node-agent-{name}", namespace="default")
    await kube.create(Lease(metadata=meta, spec=spec))
    assert await asyncio.to_thread(explain, name, kubeconfig=kubeconfig) == 0
    out = capsys.readouterr().out
    assert f"hypervisor/{name}: " in out
    assert f"eviction/{name}: New" in out
    assert f"Lease default/node-agent-{name}, held by agent" in out
    for kind in ("hv", "node"):
        what = f"{kind}/{name}"
        code = await asyncio.to_thread(explain, what, output="json", kubeconfig=kubeconfig)
        (one,) = json.loads(capsys.readouterr().out)
        assert (code, one["kind"], one["name"]) == (0, "Hypervisor", name)
    assert next((s["who"], s["stale"]) for s in one["seen"]) == ("node agent", False)


async def test_explain_finds_the_operator_of_the_hosts_shard(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await add_hypervisor(kube, name)
    label = f"shard-{name}"
    await kube.merge_patch(Hypervisor, name, {"metadata": {"labels": {label: "a"}}})
    for value in ("a", "b"):
        shard = election(f"{label}={value}", "default")
        meta = ObjectMeta(
            name=shard.name,
            namespace="default",
            labels=dict(shard.labels),
            annotations=dict(shard.annotations),
        )
        spec = LeaseSpec(
            holderIdentity=f"operator-{value}",
            leaseDurationSeconds=15,
            renewTime=micro_time(datetime.now(UTC)),
        )
        await kube.create(Lease(metadata=meta, spec=spec))
    assert await asyncio.to_thread(explain, name, kubeconfig=kubeconfig) == 0
    out = capsys.readouterr().out
    assert f"Lease default/{lease_name(f'{label}=a')}, held by operator-a" in out
    assert "operator-b" not in out


async def test_explain_of_a_server_finds_its_newest_migration(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server = str(uuid.uuid4())
    for age in (2, 1):
        meta = ObjectMeta(name=f"{server}-{age}", namespace="default", labels={SERVER: server})
        made = await kube.create(Migration(metadata=meta, spec=MigrationSpec()))
        began = (datetime.now(UTC) - timedelta(hours=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"status": {"origin": name, "type": "failed", "errMsg": "lost", "started": began}}
        await kube.merge_patch(
            Migration, made.metadata.name, status, "default", subresource="status"
        )
    for what in (f"mig/{server}", f"migration/default/{server}-1"):
        assert await asyncio.to_thread(explain, what, kubeconfig=kubeconfig) == 0
        out = capsys.readouterr().out
        assert f"migration/default/{server}-1: Failed" in out
        assert "lost" in out


@pytest.mark.parametrize("what", ["pod/x", "eviction/", "/x"])
async def test_an_invalid_request_to_explain_is_refused(
    kube: Kube, kubeconfig: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = await asyncio.to_thread(explain, what, kubeconfig=kubeconfig)
    assert code == exit_codes.INVALID_REQUEST
    assert capsys.readouterr().err.startswith("cobalt explain: ")


@pytest.mark.parametrize("what", ["missing-host", "hv/missing", "eviction/missing", "mig/missing"])
async def test_explain_names_what_there_is_instead_of_a_missing_object(
    kube: Kube, kubeconfig: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = await asyncio.to_thread(explain, what, kubeconfig=kubeconfig)
    assert code == exit_codes.INVALID_REQUEST
    assert "there is no " in capsys.readouterr().err


async def test_a_host_goes_out_of_service_and_back(kube: Kube, kubeconfig: Path, name: str) -> None:
    await add_hypervisor(kube, name)
    assert await asyncio.to_thread(maintain, name, reason="disk", kubeconfig=kubeconfig) == 0
    host = await kube.get(Hypervisor, name)
    assert host is not None
    assert (host.spec.maintenance, host.spec.maintenanceReason) == ("manual", "disk")
    assert await asyncio.to_thread(resume, name, kubeconfig=kubeconfig) == 0
    host = await kube.get(Hypervisor, name)
    assert host is not None
    assert not host.spec.maintenance
    assert not host.spec.maintenanceReason


async def test_a_host_that_goes_away_is_not_put_back(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await add_hypervisor(kube, name, spec=HypervisorSpec(maintenance="termination"))
    code = await asyncio.to_thread(resume, name, kubeconfig=kubeconfig)
    assert code == exit_codes.INVALID_REQUEST
    code = await asyncio.to_thread(maintain, name, reason="disk", kubeconfig=kubeconfig)
    assert code == exit_codes.INVALID_REQUEST
    assert "the Node is being deleted" in capsys.readouterr().err
