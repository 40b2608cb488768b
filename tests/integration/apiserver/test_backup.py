"""`cobalt apiserver backup` and `restore`: of one moment, whole, never mistaken for another."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.apiserver.storage.backup import back_up, restore
from hypercobalt.apiserver.storage.objects import StoreError
from hypercobalt.errors import ConfigurationError
from hypercobalt.runtime import Backoff, Informer, Kube, Metrics, load_connection
from hypercobalt.runtime.client.requests import Selection
from tests.integration.runtime.scripted import eventually

from .conftest import Client
from .objects import CONFIG_MAPS, config_map, flip

HYPERVISORS = "/apis/kvm.cloud.sap/v1/hypervisors"


def cobalt(command: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    line = [str(Path(sys.executable).with_name("cobalt")), "apiserver", command]
    return subprocess.run(
        [*line, *map(str, arguments)], check=False, capture_output=True, text=True, timeout=60
    )


def hypervisor(name: str, reason: str = "") -> dict[str, object]:
    spec = {"maintenance": "manual", "maintenanceReason": reason} if reason else {}
    return {
        "apiVersion": "kvm.cloud.sap/v1",
        "kind": "Hypervisor",
        "metadata": {"name": name},
        "spec": spec,
    }


async def test_a_backup_is_of_one_moment_while_writes_go_on(
    options: ServerOptions, tmp_path: Path
) -> None:
    written, enough = 0, asyncio.Event()

    async def storm(api: Client) -> None:
        nonlocal written
        with contextlib.suppress(httpx2.HTTPError):
            while True:
                answer = await api.post(CONFIG_MAPS, json=config_map(f"c{written:05}"))
                assert answer.status_code == 201, answer.text
                written += 1
                if written == 50:
                    enough.set()

    backup, restored = tmp_path / "backup", tmp_path / "restored"
    async with serve(options) as server, Client(server.url) as api:
        storming = asyncio.create_task(storm(api))
        await asyncio.wait_for(enough.wait(), 30)
        before = written
        done = await asyncio.to_thread(cobalt, "backup", backup, "--data", options.data)
        assert done.returncode == 0, done.stderr
        after = written
        storming.cancel()
        await asyncio.wait({storming})
    modes = {path.stat().st_mode & 0o077 for path in (backup, backup / "cobalt.db")}
    assert modes == {0}
    done = cobalt("restore", backup, "--data", restored)
    assert done.returncode == 0, done.stderr
    async with (
        serve(replace(options, data=restored)) as server,
        Client(server.url) as api,
    ):
        listed = (await api.get(CONFIG_MAPS)).json()["items"]
        names = [item["metadata"]["name"] for item in listed]
        assert names == [f"c{number:05}" for number in range(len(names))]  # no gap
        assert before <= len(names) <= after + 1
        ca = (restored / "pki/ca.crt").read_bytes()
    assert ca == (options.data / "pki/ca.crt").read_bytes()  # clients trust it as before


async def test_an_informer_follows_a_restore(options: ServerOptions, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    async with contextlib.AsyncExitStack() as stack:
        async with serve(options) as server, Client(server.url) as api:
            await api.post(HYPERVISORS, json=hypervisor("kept", "old"))
            await api.post(HYPERVISORS, json=hypervisor("deleted-later"))
            kube = await stack.enter_async_context(
                Kube(load_connection(server.kubeconfig), field_manager="test")
            )
            retry = Backoff(base=timedelta(milliseconds=5), cap=timedelta(milliseconds=50))
            informer = Informer(kube, Selection(Hypervisor), metrics=Metrics(), retry=retry)
            task = asyncio.create_task(informer.run())
            stack.callback(task.cancel)
            await asyncio.to_thread(back_up, options.data, backup)
            path = f"{HYPERVISORS}/kept"
            patch = {"spec": {"maintenanceReason": "new"}}
            await api.patch_as("merge-patch+json", path, patch)
            await api.delete(f"{HYPERVISORS}/deleted-later")
            for number in range(3):
                await api.post(HYPERVISORS, json=hypervisor(f"lost-{number}"))
            await eventually(lambda: "lost-2" in reasons(informer) and len(informer.cache) == 4)
            lost = (await api.get(path)).json()
            port = int(server.url.rpartition(":")[2])
        restore(backup, options.data, replace=True)
        async with serve(replace(options, port=port)) as server, Client(server.url) as api:
            await api.post(HYPERVISORS, json=hypervisor("later"))
            wanted = {"kept": "old", "deleted-later": "", "later": ""}
            await eventually(lambda: reasons(informer) == wanted)
            stale = await api.put(path, json=lost)
            assert stale.status_code == 409  # a version of the time that was lost
            async with api.watching(
                HYPERVISORS, resourceVersion=lost["metadata"]["resourceVersion"]
            ) as watch:
                kind, status = await watch.next()
                assert (kind, status["code"]) == ("ERROR", 410)
            assert any(options.data.glob("cobalt.db.replaced-*"))
        task.cancel()
        await asyncio.wait({task})


def reasons(informer: Informer[Hypervisor]) -> dict[str, str]:
    return {one.metadata.name: one.spec.maintenanceReason or "" for one in informer.cache}


async def test_a_second_restore_of_a_backup_begins_later_than_the_first(
    options: ServerOptions, tmp_path: Path
) -> None:
    backup, revisions = tmp_path / "backup", list[int]()
    async with serve(options):
        pass
    back_up(options.data, backup)
    for name in ("one", "two"):
        data = tmp_path / name
        restore(backup, data, replace=False)
        async with serve(replace(options, data=data)) as server, Client(server.url) as api:
            listed = await api.get(CONFIG_MAPS)
            revisions.append(int(listed.json()["metadata"]["resourceVersion"]))
            await api.post(CONFIG_MAPS, json=config_map("a"))
    assert revisions[1] > revisions[0] + 1


async def test_a_restore_refuses_what_would_lose_data(
    options: ServerOptions, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    async with serve(options) as server, Client(server.url) as api:
        await api.post(CONFIG_MAPS, json=config_map("a", text="the-content"))
        back_up(options.data, backup)
        with pytest.raises(ConfigurationError, match="is not empty"):
            back_up(options.data, backup)
        with pytest.raises(ConfigurationError, match="is in use by process"):
            restore(backup, options.data, replace=True)
    with pytest.raises(ConfigurationError, match="--replace sets it aside"):
        restore(backup, options.data, replace=False)
    with pytest.raises(ConfigurationError, match="holds no database"):
        back_up(tmp_path / "none", tmp_path / "x")
    with pytest.raises(ConfigurationError, match="is not a backup"):
        restore(tmp_path / "none", options.data, replace=True)

    flip(backup / "cobalt.db", b"the-content")
    assert restore(backup, tmp_path / "bitten", replace=False).damaged == 1
    file = backup / "cobalt.db"
    file.write_bytes(file.read_bytes()[:4096] + b"\xff" * 4096 + file.read_bytes()[8192:])
    with pytest.raises(StoreError, match="is damaged"):
        restore(backup, tmp_path / "broken", replace=False)
    assert not (tmp_path / "broken/cobalt.db").exists()
