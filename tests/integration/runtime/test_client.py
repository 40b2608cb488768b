"""The client's verbs and its behaviour under faults, on a real socket."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.runtime.conftest import QUICK
from tests.integration.runtime.scripted import (
    Drop,
    Hang,
    Json,
    Reply,
    Request,
    ScriptedServer,
    bad_token,
)

from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.core import ConfigMap, Node, NodeSpec, Taint
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.errors import ConfigurationError, TerminalError, TransientError
from hypercobalt.kubeconfig import Identity
from hypercobalt.runtime import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    Connection,
    ConnectionFailedError,
    DeadlineExceededError,
    Deletion,
    InvalidError,
    Kube,
    Limits,
    Metrics,
    NotFoundError,
    NotLeadingError,
    UnauthorizedError,
)


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="ns"), data=data)


def tainted(*keys: str) -> Json:
    taints = [{"key": key, "effect": "NoExecute", "unknown": key} for key in keys]
    return {"metadata": {"name": "n"}, "spec": {"taints": taints}}


async def test_absent_object_is_none(kube: Kube) -> None:
    assert await kube.get(ConfigMap, "absent", "ns") is None


async def test_object_is_created_read_and_deleted(kube: Kube, server: ScriptedServer) -> None:
    created = await kube.create(config_map("a", k="v"))
    assert created.metadata.resourceVersion
    assert server.requests[-1].params["fieldManager"] == "hypercobalt"
    assert await kube.get(ConfigMap, "a", "ns") == created
    assert await kube.delete(ConfigMap, "a", "ns") is Deletion.GONE
    assert await kube.delete(ConfigMap, "a", "ns") is Deletion.ABSENT


async def test_create_of_an_existing_object_is_refused(kube: Kube) -> None:
    await kube.create(config_map("a"))
    with pytest.raises(AlreadyExistsError, match="create ConfigMap a"):
        await kube.create(config_map("a"))


async def test_patch_sends_only_the_difference(kube: Kube, server: ScriptedServer) -> None:
    server.put(
        "configmaps",
        {
            "metadata": {"name": "a", "namespace": "ns", "unknown": 1},
            "data": {"keep": "1", "drop": "2"},
            "extra": {"ours": False},
        },
    )
    old = await kube.get(ConfigMap, "a", "ns")
    assert old is not None
    new = await kube.patch(old, replace(old, data={"keep": "1", "new": "3"}))
    assert new.data == {"keep": "1", "new": "3"}
    sent: object = server.requests[-1].body
    version = old.metadata.resourceVersion
    assert sent == [
        {"op": "remove", "path": "/data/drop"},
        {"op": "add", "path": "/data/new", "value": "3"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
    ]
    stored = server.objects["configmaps"]["ns/a"]
    assert stored["extra"] == {"ours": False}


async def test_nothing_is_sent_when_nothing_differs(kube: Kube, server: ScriptedServer) -> None:
    old = await kube.create(config_map("a", k="v"))
    assert await kube.patch(old, replace(old, data={"k": "v"})) is old
    assert server.calls["patch"] == 0


async def test_patch_of_an_old_version_conflicts(kube: Kube, server: ScriptedServer) -> None:
    old = await kube.create(config_map("a", k="v"))
    server.put("configmaps", {"metadata": {"name": "a", "namespace": "ns"}, "data": {"k": "w"}})
    with pytest.raises(ConflictError):
        await kube.patch(old, replace(old, data={"k": "mine"}))
    assert server.objects["configmaps"]["ns/a"]["data"] == {"k": "w"}


async def test_patch_of_a_list_that_has_become_shorter_conflicts(
    kube: Kube, server: ScriptedServer
) -> None:
    taint = Taint(key="b", effect="NoSchedule")
    server.put("nodes", tainted("a", "b"))
    old = await kube.get(Node, "n")
    assert old is not None
    server.put("nodes", tainted("a"))
    with pytest.raises(ConflictError, match="patch Node n"):
        await kube.patch(old, replace(old, spec=NodeSpec(taints=(old.spec.taints[0], taint))))
    del server.objects["nodes"]["n"]
    with pytest.raises(NotFoundError):
        await kube.patch(old, replace(old, spec=NodeSpec()))


async def test_patch_that_breaks_a_rule_is_no_conflict(kube: Kube, server: ScriptedServer) -> None:
    old = await kube.create(config_map("a", k="v"))
    server.fail(422, verbs=("patch",))
    with pytest.raises(InvalidError):
        await kube.patch(old, replace(old, data={"k": "mine"}))


async def test_patch_needs_an_object_that_was_read(kube: Kube) -> None:
    made = config_map("a")
    with pytest.raises(ConfigurationError, match="ns/a"):
        await kube.patch(made, replace(made, data={"k": "v"}))


async def test_modify_reads_again_after_a_conflict(kube: Kube, server: ScriptedServer) -> None:
    await kube.create(config_map("a", n="1"))
    interfered: list[str] = []

    def add_one(current: ConfigMap) -> ConfigMap:
        if not interfered:
            interfered.append(current.data["n"])
            server.put(
                "configmaps", {"metadata": {"name": "a", "namespace": "ns"}, "data": {"n": "10"}}
            )
        return replace(current, data={"n": str(int(current.data["n"]) + 1)})

    result = await kube.modify(ConfigMap, "a", add_one, "ns")
    assert result is not None
    assert result.data == {"n": "11"}
    assert await kube.modify(ConfigMap, "absent", add_one, "ns") is None


async def test_modify_of_an_object_deleted_meanwhile_returns_none(
    kube: Kube, server: ScriptedServer
) -> None:
    await kube.create(config_map("a", n="1"))
    server.fail(404, verbs=("patch",))
    changed = await kube.modify(ConfigMap, "a", lambda now: replace(now, data={"n": "2"}), "ns")
    assert changed is None


async def test_apply_names_manager_and_force(kube: Kube, server: ScriptedServer) -> None:
    await kube.as_manager("controller-a").apply(config_map("a", k="v"), force=True)
    sent = server.requests[-1]
    assert sent.params == {"fieldManager": "controller-a", "force": "true"}
    assert sent.headers["content-type"] == "application/apply-patch+yaml"
    assert sent.body["apiVersion"] == "v1"


async def test_status_goes_to_its_subresource(kube: Kube, server: ScriptedServer) -> None:
    server.put("nodes", {"metadata": {"name": "a"}})
    node = await kube.get(Node, "a")
    assert node is not None
    await kube.merge_patch(Node, "a", {"status": {"x": 1}}, subresource="status")
    assert server.requests[-1].path == "/api/v1/nodes/a/status"


async def test_json_patch_carries_the_version(kube: Kube, server: ScriptedServer) -> None:
    server.faults.append(lambda r: Reply(200, r.body and {}) if r.verb == "patch" else None)
    await kube.json_patch(
        ConfigMap,
        "a",
        [{"op": "add", "path": "/data/k", "value": "v"}],
        "ns",
        resource_version="7",
    )
    sent: object = server.requests[-1].body
    assert sent == [
        {"op": "add", "path": "/data/k", "value": "v"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
    ]


async def test_delete_with_a_stale_uid_conflicts(kube: Kube) -> None:
    await kube.create(config_map("a"))
    with pytest.raises(ConflictError):
        await kube.delete(ConfigMap, "a", "ns", uid="another", propagation="Foreground")


async def test_delete_reports_that_finalizers_keep_the_object(
    kube: Kube, server: ScriptedServer
) -> None:
    server.put("nodes", {"metadata": {"name": "a", "finalizers": ["x/y"]}})
    assert await kube.delete(Node, "a", grace=timedelta(seconds=5)) is Deletion.TERMINATING
    assert server.requests[-1].body["gracePeriodSeconds"] == 5


async def test_list_reads_every_page(kube: Kube, server: ScriptedServer) -> None:
    for number in range(7):
        server.put("nodes", {"metadata": {"name": f"n{number}", "labels": {"a": "b"}}})
    server.put("nodes", {"metadata": {"name": "other"}})
    result = await kube.list(Node, labels="a=b", limit=3)
    assert [n.metadata.name for n in result.items] == [f"n{n}" for n in range(7)]
    assert server.calls["list"] == 3
    assert result.resource_version == str(server.version)


async def test_list_starts_again_when_its_version_expires(
    kube: Kube, server: ScriptedServer
) -> None:
    for number in range(5):
        server.put("nodes", {"metadata": {"name": f"n{number}"}})
    left = [1]

    def expire(request: Request) -> Reply | None:
        if "continue" in request.params and left:
            left.pop()
            return Reply(410, {"kind": "Status", "code": 410, "reason": "Expired"})
        return None

    server.faults.append(expire)
    result = await kube.list(Node, limit=2)
    assert [n.metadata.name for n in result.items] == [f"n{n}" for n in range(5)]


async def test_one_bad_object_does_not_stop_a_list(kube: Kube, server: ScriptedServer) -> None:
    server.put("nodes", {"metadata": {"name": "good"}})
    server.put("nodes", {"metadata": {"name": "bad"}, "spec": {"unschedulable": "maybe"}})
    result = await kube.list(Node)
    assert [n.metadata.name for n in result.items] == ["good"]
    assert "unschedulable" in result.unreadable["bad"]


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
async def test_idempotent_verbs_outlast_a_storm(
    kube: Kube, server: ScriptedServer, code: int
) -> None:
    server.put("nodes", {"metadata": {"name": "a"}})
    server.fail(code, times=4)
    assert await kube.get(Node, "a") is not None
    assert server.calls["get"] == 5


async def test_create_is_not_repeated_after_a_server_fault(
    kube: Kube, server: ScriptedServer
) -> None:
    server.fail(500, verbs=("post",))
    with pytest.raises(ApiError) as caught:
        await kube.create(config_map("a"))
    assert (caught.value.code, server.calls["post"]) == (500, 1)
    assert isinstance(caught.value, TransientError)


async def test_create_is_repeated_after_429(kube: Kube, server: ScriptedServer) -> None:
    server.fail(429, verbs=("post",), times=2)
    await kube.create(config_map("a"))
    assert server.calls["post"] == 3


async def test_retry_after_is_waited_for(kube: Kube, server: ScriptedServer) -> None:
    server.put("nodes", {"metadata": {"name": "a"}})
    server.fail(429, headers={"Retry-After": "1"})
    loop = asyncio.get_running_loop()
    started = loop.time()
    await kube.get(Node, "a")
    assert loop.time() - started >= 1


async def test_retry_after_beyond_the_deadline_is_handed_on(
    kube: Kube, server: ScriptedServer
) -> None:
    server.fail(503, headers={"Retry-After": "60"}, times=9)
    with pytest.raises(TransientError) as caught:
        await kube.get(Node, "a")
    assert caught.value.retry_after == timedelta(seconds=60)
    assert server.calls["get"] == 1


async def test_slow_server_meets_the_deadline(server: ScriptedServer) -> None:
    def hang(_: Request) -> Reply | None:
        raise Hang

    server.faults.append(hang)
    limits = Limits(
        deadline=timedelta(milliseconds=300), attempt=timedelta(milliseconds=100), backoff=QUICK
    )
    async with Kube(Connection(server.url), limits=limits) as kube:
        with pytest.raises(DeadlineExceededError, match="get Node a"):
            await kube.get(Node, "a")
    assert server.calls["get"] >= 2


async def test_dropped_connection_is_retried_for_reads_only(
    kube: Kube, server: ScriptedServer
) -> None:
    server.put("nodes", {"metadata": {"name": "a"}})
    left = [1, 2]

    def drop(_: Request) -> Reply | None:
        if left:
            left.pop()
            raise Drop
        return None

    server.faults.append(drop)
    assert await kube.get(Node, "a") is not None
    left.append(1)
    with pytest.raises(ConnectionFailedError):
        await kube.create(config_map("a"))


async def test_unreachable_server_is_transient() -> None:
    limits = Limits(deadline=timedelta(milliseconds=200), backoff=QUICK)
    async with Kube(Connection("http://127.0.0.1:9"), limits=limits) as kube:
        with pytest.raises(TransientError, match="cannot connect"):
            await kube.get(Node, "a")


async def test_invalid_is_terminal_and_names_the_field(kube: Kube, server: ScriptedServer) -> None:
    cause = {"field": "data.k", "message": "too long", "reason": "FieldValueTooLong"}
    body: dict[str, object] = {
        "kind": "Status",
        "code": 422,
        "reason": "Invalid",
        "message": "no",
        "details": {"causes": [cause]},
    }
    server.faults.append(lambda _: Reply(422, body))
    with pytest.raises(InvalidError) as caught:
        await kube.create(config_map("a"))
    assert caught.value.causes[0].field == "data.k"
    assert isinstance(caught.value, TerminalError)


async def test_a_proxy_page_is_quoted(kube: Kube, server: ScriptedServer) -> None:
    server.faults.append(lambda _: Reply(403, b"<html>blocked by proxy</html>"))
    with pytest.raises(ApiError, match="blocked by proxy"):
        await kube.get(Node, "a")


async def test_patch_of_an_absent_object_is_not_found(kube: Kube) -> None:
    with pytest.raises(NotFoundError):
        await kube.merge_patch(Node, "absent", {"metadata": {"labels": {"a": "b"}}})


async def test_expired_token_is_read_again(server: ScriptedServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    server.put("nodes", {"metadata": {"name": "a"}})
    server.faults.append(bad_token("old"))
    connection = Connection(server.url, user=Identity(token_file=token))
    async with Kube(connection) as kube:
        await kube.get(Node, "a")
        server.faults[:] = [bad_token("new")]
        with pytest.raises(UnauthorizedError) as caught:
            await kube.get(Node, "a")
        token.write_text("new\n")
        assert await kube.get(Node, "a") is not None
        assert "old" not in str(caught.value)


async def test_connections_are_limited_and_watches_not_counted(server: ScriptedServer) -> None:
    server.put("nodes", {"metadata": {"name": "a"}})
    async with (
        Kube(Connection(server.url), limits=Limits(connections=3)) as kube,
        kube.watch(Node),
        kube.watch(Node),
    ):
        await asyncio.gather(*(kube.get(Node, "a") for _ in range(20)))
        assert len(server._writers) <= 3 + 2


async def test_guard_stops_writes_and_not_reads(kube: Kube, server: ScriptedServer) -> None:
    server.put("nodes", {"metadata": {"name": "a"}})

    def refuse() -> None:
        raise NotLeadingError("not leading")

    fenced = kube.guarded(refuse)
    assert await fenced.get(Node, "a") is not None
    with pytest.raises(NotLeadingError):
        await fenced.delete(Node, "a")
    assert server.calls["delete"] == 0


async def test_guard_is_checked_again_before_a_retry(kube: Kube, server: ScriptedServer) -> None:
    server.put("nodes", {"metadata": {"name": "a"}})
    server.fail(503)

    def lose() -> None:  # the lease goes between the first attempt and the second
        if server.calls["patch"]:
            raise NotLeadingError("not leading")

    with pytest.raises(NotLeadingError):
        await kube.guarded(lose).merge_patch(Node, "a", {"metadata": {"labels": {"a": "b"}}})
    assert server.calls["patch"] == 1


async def test_metrics_count_requests(kube: Kube, server: ScriptedServer, metrics: Metrics) -> None:
    server.fail(500)
    await kube.get(Node, "a")
    host = f"127.0.0.1:{server.port}"

    def count(code: str) -> float | None:
        labels = {"code": code, "method": "GET", "host": host}
        return metrics.registry.get_sample_value("rest_client_requests_total", labels)

    assert (count("500"), count("404")) == (1.0, 1.0)


async def test_micro_times_survive(kube: Kube) -> None:
    made = await kube.create(
        Lease(
            metadata=ObjectMeta(name="l", namespace="ns"), spec=LeaseSpec(leaseDurationSeconds=15)
        )
    )
    assert made.spec.leaseDurationSeconds == 15
