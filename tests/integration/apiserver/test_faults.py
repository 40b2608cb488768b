"""A disk that hangs, a writer that dies, bits that change, a disk that is full."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hypercobalt.apiserver import http
from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.apiserver.storage.database import Database
from hypercobalt.apiserver.storage.objects import Event, StoreError

from .conftest import Client, token_file
from .objects import CONFIG_MAPS, config_map, flip

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


class Disk:
    """Commits wait while it hangs; they fail while it is broken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._goes_on = threading.Event()
        self._goes_on.set()
        self.broken = False
        commit = Database._try_commit

        def slow(
            database: Database, batch: Sequence[Event], *, history: bool = True
        ) -> StoreError | None:
            self._goes_on.wait()
            if self.broken:
                raise RuntimeError("a bug")
            return commit(database, batch, history=history)

        monkeypatch.setattr(Database, "_try_commit", slow)

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        self._goes_on.clear()
        try:
            yield
        finally:
            self._goes_on.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


async def test_a_write_to_a_frozen_disk_is_a_timeout_and_reads_go_on(
    options: ServerOptions, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(options) as server, Client(server.url) as api:
        monkeypatch.setattr(http, "REQUEST_SECONDS", 0.3)
        with disk.hanging():
            for _ in range(2):  # the second waits for the first one's object
                answer = await api.post(CONFIG_MAPS, json=config_map("a"))
                body = answer.json()
                assert (answer.status_code, body["reason"]) == (504, "Timeout")
            assert (await api.get(CONFIG_MAPS)).json()["items"] == []
        async with asyncio.timeout(10):
            while (await api.get(f"{CONFIG_MAPS}/a")).status_code != 200:
                pass  # the write was under way, and is not lost


async def test_a_frozen_disk_makes_the_server_unready_by_name(
    options: ServerOptions, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.health.COMMIT_SECONDS", 0.2)
    async with serve(options) as server, Client(server.url) as api:
        before = await api.get("/readyz", params={"verbose": ""})
        assert before.status_code == 200
        assert "[+]storage-commit ok\n" in before.text
        assert before.text.endswith("readyz check passed\n")
        with disk.hanging():
            writing = asyncio.create_task(api.post(CONFIG_MAPS, json=config_map("a")))
            async with asyncio.timeout(10):
                while (answer := await api.get("/readyz")).status_code == 200:
                    pass
            assert "[-]storage-commit failed: the oldest write waits for the disk" in answer.text
            assert answer.text.endswith("readyz check failed\n")
            assert (await api.get("/readyz/storage-commit")).status_code == 500
            assert (await api.get("/readyz/storage-writer")).status_code == 200
            assert (await api.get("/livez")).status_code == 200  # a restart would not help
        assert (await writing).status_code == 201
        assert (await api.get("/readyz")).text == "ok"
        assert (await api.get("/readyz/no-such-check")).status_code == 404


async def test_a_writer_that_died_is_not_waited_for(options: ServerOptions, disk: Disk) -> None:
    async with serve(options) as server, Client(server.url) as api:
        disk.broken = True
        for name in ("a", "b"):
            answer = await api.post(CONFIG_MAPS, json=config_map(name))
            assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
            assert "restart" in answer.json()["message"]
        for path in ("/readyz", "/livez"):
            answer = await api.get(path)
            assert answer.status_code == 500
            assert "[-]storage-writer failed" in answer.text
        assert (await api.get(CONFIG_MAPS)).json()["items"] == []
        assert "cobalt_apiserver_storage_writer_up 0\n" in (await api.get("/metrics")).text


async def test_a_damaged_object_is_named_and_deletable_and_others_are_served(
    options: ServerOptions,
) -> None:
    async with serve(options) as server, Client(server.url) as api:
        for name in ("good", "bad"):
            answer = await api.post(CONFIG_MAPS, json=config_map(name, text=f"{name}-content"))
        before = answer.json()["metadata"]["resourceVersion"]
    flip(options.data / "cobalt.db", b"bad-content")
    for _ in range(2):  # it stays so
        async with serve(options) as server, Client(server.url) as api:
            answer = await api.get(f"{CONFIG_MAPS}/bad")
            assert (answer.status_code, answer.json()["reason"]) == (500, "StorageReadError")
            assert "configmaps default/bad is damaged" in answer.json()["message"]
            patch = {"data": {"a": "b"}}
            answer = await api.patch_as("merge-patch+json", f"{CONFIG_MAPS}/bad", patch)
            assert answer.status_code == 500
            listed = (await api.get(CONFIG_MAPS)).json()["items"]
            assert [item["metadata"]["name"] for item in listed] == ["good"]
            async with api.watching(CONFIG_MAPS, resourceVersion=before) as watch:
                kind, gone = await watch.next()
                assert (kind, gone["code"]) == ("ERROR", 410)  # watchers list again
            ready = await api.get("/readyz", params={"verbose": ""})
            assert ready.status_code == 200
            assert "[+]storage-objects ok: 1 damaged objects are not served" in ready.text
            metrics = (await api.get("/metrics")).text
            assert "cobalt_apiserver_storage_damaged_objects 1\n" in metrics
    async with serve(options) as server, Client(server.url) as api:
        dry = await api.delete(f"{CONFIG_MAPS}/bad", params={"dryRun": "All"})
        assert dry.status_code == 200
        assert (await api.get(f"{CONFIG_MAPS}/bad")).status_code == 500
        assert (await api.delete(f"{CONFIG_MAPS}/bad")).status_code == 200
        assert (await api.get(f"{CONFIG_MAPS}/bad")).status_code == 404
        assert (await api.post(CONFIG_MAPS, json=config_map("bad"))).status_code == 201
    async with serve(options) as server, Client(server.url) as api:
        assert (await api.get(f"{CONFIG_MAPS}/bad")).status_code == 200
        assert "damaged" not in (await api.get("/readyz", params={"verbose": ""})).text


async def test_dependents_of_a_damaged_object_are_kept(options: ServerOptions) -> None:
    async with serve(options) as server, Client(server.url) as api:
        owner = config_map("owner", text="owner-content")
        uid = (await api.post(CONFIG_MAPS, json=owner)).json()["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        metadata = {"name": "owned", "ownerReferences": [reference]}
        await api.post(CONFIG_MAPS, json={"metadata": metadata})
    flip(options.data / "cobalt.db", b"owner-content")
    async with serve(options) as server, Client(server.url) as api:
        patch = {"metadata": {"labels": {"a": "b"}}}  # makes the collector look at it
        await api.patch_as("merge-patch+json", f"{CONFIG_MAPS}/owned", patch)
        await api.post(CONFIG_MAPS, json=config_map("later"))
        assert (await api.get(f"{CONFIG_MAPS}/owned")).status_code == 200


async def test_a_damaged_definition_of_ours_is_written_again_and_its_objects_stay(
    options: ServerOptions,
) -> None:
    hypervisors = "/apis/kvm.cloud.sap/v1/hypervisors"
    async with serve(options) as server, Client(server.url) as api:
        body = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor", "metadata": {"name": "a"}}
        assert (await api.post(hypervisors, json=body)).status_code == 201
    flip(options.data / "cobalt.db", b'"singular":"hypervisor"')
    flip(options.data / "cobalt.db", b'"metadata":{"name":"kube-public"')
    async with serve(options) as server, Client(server.url) as api:
        assert (await api.get(f"{hypervisors}/a")).status_code == 200
        assert (await api.get("/api/v1/namespaces/kube-public")).status_code == 200
        assert "damaged" not in (await api.get("/readyz", params={"verbose": ""})).text


async def test_a_namespace_goes_with_its_damaged_objects(options: ServerOptions) -> None:
    async with serve(options) as server, Client(server.url) as api:
        await api.post("/api/v1/namespaces", json={"metadata": {"name": "n"}})
        path = CONFIG_MAPS.replace("default", "n")
        await api.post(path, json=config_map("bad", text="bad-content"))
    flip(options.data / "cobalt.db", b"bad-content")
    async with serve(options) as server, Client(server.url) as api:
        await api.delete("/api/v1/namespaces/n")
        await api.until_gone("/api/v1/namespaces/n")
        assert "damaged" not in (await api.get("/readyz", params={"verbose": ""})).text


async def test_a_data_directory_without_checksums_is_opened(options: ServerOptions) -> None:
    async with serve(options) as server, Client(server.url) as api:
        await api.post(CONFIG_MAPS, json=config_map("old", text="old-content"))
    with contextlib.closing(sqlite3.connect(options.data / "cobalt.db")) as db:
        db.executescript(
            "ALTER TABLE objects DROP COLUMN checksum; ALTER TABLE events DROP COLUMN checksum;"
            "PRAGMA user_version = 1;"
        )
    async with serve(options) as server, Client(server.url) as api:
        assert (await api.get(f"{CONFIG_MAPS}/old")).status_code == 200
        await api.post(CONFIG_MAPS, json=config_map("new"))
    flip(options.data / "cobalt.db", b"old-content")
    async with serve(options) as server, Client(server.url) as api:
        assert (await api.get(f"{CONFIG_MAPS}/old")).status_code == 500
        assert (await api.get(f"{CONFIG_MAPS}/new")).status_code == 200


async def test_a_damaged_index_is_made_again(options: ServerOptions) -> None:
    async with serve(options) as server, Client(server.url) as api:
        await api.post(CONFIG_MAPS, json=config_map("a"))
    file = options.data / "cobalt.db"
    data = file.read_bytes()
    places = [at for at in range(len(data)) if data.startswith(b"configmapsdefaulta", at)]
    index = [at for at in places if b'{"' not in data[at : at + 40]]
    assert index
    for at in index:
        data = data[: at + 17] + b"b" + data[at + 18 :]
    file.write_bytes(data)
    async with serve(options) as server, Client(server.url) as api:
        patch = {"data": {"a": "b"}}
        path = f"{CONFIG_MAPS}/a"
        assert (await api.patch_as("merge-patch+json", path, patch)).status_code == 200
    async with serve(options) as server, Client(server.url) as api:
        assert (await api.get(path)).json()["data"] == {"a": "b"}
        assert (await api.delete(path)).status_code == 200


async def test_a_full_disk_takes_deletes_and_renewals_and_recovers(small_disk: Path) -> None:
    options = ServerOptions(
        small_disk / "data", port=0, token_auth_file=token_file(small_disk.parent)
    )
    async with serve(options) as server, Client(server.url) as api:
        lease = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}}
        assert (await api.post(LEASES, json=lease)).status_code == 201
        stored = 0
        body = config_map("c", text="x" * 100_000)
        while (await api.post(CONFIG_MAPS, json=body)).status_code == 201:
            stored += 1
            body = config_map(f"c{stored}", text="x" * 100_000)
        assert stored > 5
        with (small_disk / "filler").open("wb") as filler, contextlib.suppress(OSError):
            for _ in range(200):
                filler.write(b"x" * 65536)
                filler.flush()
        for number in range(stored):
            name = "c" if not number else f"c{number}"
            assert (await api.delete(f"{CONFIG_MAPS}/{name}")).status_code == 200, number
            renewal = {"spec": {"leaseTransitions": number}}
            path = f"{LEASES}/leader"
            answer = await api.patch_as("merge-patch+json", path, renewal)
            assert answer.status_code == 200, answer.text
        assert (await api.get(CONFIG_MAPS)).json()["items"] == []
        (small_disk / "filler").unlink()
        answer = await api.post(CONFIG_MAPS, json=config_map("again"))
        assert answer.status_code == 201, answer.text
        assert "disk full" not in (await api.get("/readyz", params={"verbose": ""})).text
    async with serve(options) as server, Client(server.url) as api:
        lease = (await api.get(f"{LEASES}/leader")).json()
        assert lease["spec"]["leaseTransitions"] == stored - 1
        listed = (await api.get(CONFIG_MAPS)).json()["items"]
        assert [item["metadata"]["name"] for item in listed] == ["again"]
