"""Deletion: preconditions, propagation policies, finalizers, grace periods, collections."""

from __future__ import annotations

from tests.conformance.definitions import OPEN, group_of, install
from tests.conformance.samples import GROUP, config_map, definition, gadget, pod
from tests.conformance.script import PATCH_TYPES, Api, scenario
from tests.conformance.wire import Body, Json

DRY: Body = {"dryRun": ["All"]}


@scenario
async def test_preconditions_of_a_delete_are_checked(api: Api) -> None:
    for resource, body in (("configmaps", config_map("one")), ("gadgets", gadget("one"))):
        one = api.at(resource, "one")
        made = await api.post(api.at(resource), body)
        await api.delete(one, {"preconditions": {"uid": "not-this"}})
        await api.delete(one, {"preconditions": {"resourceVersion": "1"}})
        await api.delete(one, {"preconditions": {"uid": made.uid, "resourceVersion": "1"}})
        both = {"uid": made.uid, "resourceVersion": made.version}
        await api.delete(one, {"preconditions": both})
        await api.get(one)


@scenario
async def test_delete_options_are_checked(api: Api) -> None:
    one = api.at("configmaps", "one")
    await api.post(api.at("configmaps"), config_map("one"))
    refused: tuple[Json, ...] = (
        {"propagationPolicy": "Sideways"},
        {"propagationPolicy": "Orphan", "orphanDependents": True},
        {"gracePeriodSeconds": "soon"},
        {"dryRun": ["Some"]},
        {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]},
        {"kind": "Other", "apiVersion": "v1"},
        {"unknown": 1, "dryRun": ["All"]},
        b"{",
        [],
    )
    for options in refused:
        await api.delete(one, options)
    await api.delete(f"{one}?propagationPolicy=Sideways")
    await api.delete(f"{one}?gracePeriodSeconds=x")
    await api.delete(f"{one}?gracePeriodSeconds=-1")
    await api.get(one)
    for query in ("dryRun=All", "propagationPolicy=Orphan", "orphanDependents=true"):
        await api.post(api.at("configmaps"), config_map("two", finalizers=["a.b/c"]))
        two = api.at("configmaps", "two")
        await api.delete(f"{two}?{query}", {})  # with a body, the query is ignored
        await api.get(two)
        await api.patch(two, {"metadata": {"finalizers": None}})


@scenario
async def test_propagation_policies_leave_their_finalizers(api: Api) -> None:
    for resource, make in (("configmaps", config_map), ("gadgets", gadget)):
        for policy in ("Foreground", "Orphan", "Background"):
            name = policy.lower()
            await api.post(api.at(resource), make(name))
            # nothing depends on it; a bare kube-apiserver has no collector that would end the wait
            await api.post(api.at(resource), make(f"{name}-held", finalizers=["a.b/c"]))
            held = api.at(resource, f"{name}-held")
            await api.delete(held, {"propagationPolicy": policy})


@scenario
async def test_propagation_policies_meet_finalizers(api: Api) -> None:
    """The deletes are dry runs: a bare kube-apiserver has no garbage collector."""
    requested: tuple[Body, ...] = (
        {},
        {"propagationPolicy": "Foreground"},
        {"propagationPolicy": "Orphan"},
        {"propagationPolicy": "Background"},
        {"orphanDependents": True},
        {"orphanDependents": False},
    )
    kept: tuple[list[str], ...] = (
        [],
        ["a.b/c"],
        ["orphan", "a.b/c"],
        ["foregroundDeletion", "a.b/c"],
        ["foregroundDeletion", "a.b/c", "orphan"],
    )
    for resource, make in (("configmaps", config_map), ("gadgets", gadget), ("pods", pod)):
        for number, finalizers in enumerate(kept):
            one = api.at(resource, f"c{number}")
            await api.post(api.at(resource), make(f"c{number}", finalizers=finalizers))
            for options in requested:
                await api.delete(one, {**options, **DRY})
            await api.delete(f"{one}?dryRun=All&propagationPolicy=Orphan")
            await api.delete(f"{one}?dryRun=All&orphanDependents=true")
            await api.delete(one, {"gracePeriodSeconds": 5, **DRY})
        for options in requested:
            await api.delete(api.at(resource), {**options, **DRY})
        await api.get(api.at(resource))
    running = api.at("pods", "running")
    await api.post(api.at("pods"), pod("running", node="n-1"))
    for options in requested:
        await api.delete(running, {**options, "gracePeriodSeconds": 7, **DRY})


@scenario
async def test_propagation_policies_apply_to_namespaces_and_definitions(api: Api) -> None:
    group = group_of(api)
    path = await install(api, definition("things", "Thing", OPEN, group=group))
    for what in (f"/api/v1/namespaces/{api.namespace}", path):
        for policy in ("Foreground", "Orphan", "Background"):
            await api.delete(what, {"propagationPolicy": policy, **DRY})
        await api.get(what)


@scenario
async def test_deletion_finalizers_are_removed_by_their_owner_after_its_work(api: Api) -> None:
    for resource, make in (("configmaps", config_map), ("gadgets", gadget)):
        one = api.at(resource, "one")
        await api.post(api.at(resource), make("one", finalizers=["a.b/c"]))
        await api.delete(one)
        await api.patch(one, {"metadata": {"finalizers": ["a.b/c", "orphan"]}})
        await api.patch(one, {"metadata": {"finalizers": ["foregroundDeletion"]}})
        await api.patch(one, {"metadata": {"ownerReferences": None, "finalizers": []}})
        await api.get(one)


@scenario
async def test_finalizers_hold_an_object_back(api: Api) -> None:
    for resource, make in (("configmaps", config_map), ("gadgets", gadget)):
        one = api.at(resource, "one")
        await api.post(api.at(resource), make("one", finalizers=["a.b/c", "a.b/d"]))
        await api.delete(one)
        await api.get(one)
        await api.delete(one)
        await api.patch(one, {"metadata": {"labels": {"still": "changeable"}}})
        await api.patch(one, {"metadata": {"finalizers": ["a.b/c", "a.b/d", "a.b/e"]}})
        await api.patch(one, {"metadata": {"deletionTimestamp": None}})
        await api.patch(one, {"metadata": {"finalizers": ["a.b/d"]}})
        await api.post(api.at(resource), make("one"))
        await api.apply(one, make("one"), force=True)
        await api.patch(one, {"metadata": {"finalizers": None}})
        await api.get(one)


@scenario
async def test_pods_are_deleted_gracefully(api: Api) -> None:
    await api.post(api.at("pods"), pod("waiting"))
    await api.delete(api.at("pods", "waiting"))
    await api.get(api.at("pods", "waiting"))
    one = api.at("pods", "one")
    await api.post(api.at("pods"), pod("one", node="n-1"))
    await api.delete(one)
    await api.delete(one, {"gracePeriodSeconds": 5})
    await api.delete(one, {"gracePeriodSeconds": 50})
    await api.delete(one, {"gracePeriodSeconds": 0})
    await api.get(one)
    done = api.at("pods", "done")
    await api.post(api.at("pods"), pod("done", node="n-1"))
    await api.patch(f"{done}/status", {"status": {"phase": "Succeeded"}})
    await api.delete(done)
    await api.get(done)
    await api.post(api.at("pods"), pod("now", node="n-1"))
    await api.delete(f"{api.at('pods', 'now')}?gracePeriodSeconds=0")
    await api.post(api.at("pods"), pod("held", node="n-1", finalizers=["a.b/c"]))
    await api.delete(api.at("pods", "held"), {"gracePeriodSeconds": 0})
    await api.patch(api.at("pods", "held"), {"metadata": {"finalizers": None}})
    await api.get(api.at("pods"))


@scenario
async def test_collections_are_deleted_by_selector(api: Api) -> None:
    for resource, make in (("configmaps", config_map), ("gadgets", gadget)):
        path = api.at(resource)
        for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
            await api.post(path, make(name, labels={"colour": colour}))
        await api.post(path, make("d", labels={"colour": "red"}, finalizers=["a.b/c"]))
        await api.delete(f"{path}?labelSelector=colour%3Dgreen")
        await api.delete(f"{path}?labelSelector=colour%3Dred")
        await api.get(path)
        await api.delete(f"{path}?fieldSelector=metadata.name%3Dc")
        await api.delete(f"{path}?labelSelector=a+in")
        await api.delete(path, {"propagationPolicy": "Sideways"})
        await api.delete(path)
        await api.get(path)


@scenario
async def test_eviction_of_pods_is_answered_alike(api: Api) -> None:
    def evict(name: str, **more: object) -> Body:
        return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}

    for name in ("one", "two", "three"):
        await api.post(api.at("pods"), pod(name, node="n-1"))
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await api.patch(f"{api.at('pods', 'one')}/status", {"status": ready})
    await api.post(f"{api.at('pods', 'nope')}/eviction", evict("nope"))
    await api.post(f"{api.at('pods', 'one')}/eviction", evict("other"))
    dry = {"deleteOptions": {"dryRun": ["All"]}}
    await api.post(f"{api.at('pods', 'one')}/eviction", evict("one", **dry))
    await api.post(f"{api.at('pods', 'two')}/eviction", evict("two"))
    await api.get(api.at("pods", "two"))
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    budget = {"metadata": {"name": "one"}, "spec": spec}
    await api.post(api.at("poddisruptionbudgets"), budget)
    await api.until(api.at("poddisruptionbudgets", "one"), lambda a: a.status == 200)
    await api.post(f"{api.at('pods', 'one')}/eviction", evict("one"))
    await api.get(f"{api.at('pods', 'one')}/eviction")


@scenario
async def test_namespace_finalizers_are_changed_by_finalize_only(api: Api) -> None:
    other = f"{api.namespace}-b"
    path = f"/api/v1/namespaces/{other}"
    bare: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    await api.post("/api/v1/namespaces", {**bare, "spec": {"finalizers": ["a.b/c"]}})
    # keeps the namespace there on the embedded server, whose collector would empty it
    await api.post(api.at("configmaps", ns=other), config_map("held", finalizers=["a.b/c"]))
    await api.put(path, bare)
    await api.put(path, {**bare, "spec": {"finalizers": ["a.b/d"]}})
    await api.patch(path, {"spec": {"finalizers": None}})
    await api.patch(path, {"spec": None})
    await api.patch(path, [{"op": "remove", "path": "/spec/finalizers"}], "json")
    await api.patch(path, {"spec": {"finalizers": ["a.b/d"]}}, "strategic")
    await api.apply(path, {**bare, "spec": {"finalizers": ["a.b/d"]}}, force=True)
    await api.patch(f"{path}/status", {"spec": {"finalizers": None}})
    await api.patch(f"{path}/finalize", {"spec": {"finalizers": None}})
    await api.request("DELETE", path)
    await api.request("PUT", path, bare)
    await api.request("PATCH", path, {"spec": None}, content_type=PATCH_TYPES["merge"])
    kept = await api.request("GET", path)
    api.record("what holds it", [kept["status"]["phase"], kept["spec"]])
    await api.put(f"{path}/finalize", {**bare, "spec": {"finalizers": ["no slash"]}})
    gone = await api.request("PUT", f"{path}/finalize", {**bare, "spec": {"finalizers": []}})
    api.record("finalize", gone.status)
    await api.get(path)


@scenario
async def test_terminating_namespace_takes_nothing_new(api: Api) -> None:
    other = f"{api.namespace}-b"
    await api.post("/api/v1/namespaces", {"metadata": {"name": other}})
    # keeps the namespace there on the embedded server, whose collector would empty it
    await api.post(api.at("configmaps", ns=other), config_map("held", finalizers=["a.b/c"]))
    await api.delete(f"/api/v1/namespaces/{other}", {"preconditions": {"uid": "not-this"}})
    deleted = await api.request("DELETE", f"/api/v1/namespaces/{other}")
    api.record("delete the namespace", [deleted.status, deleted["status"]["phase"]])
    await api.post(api.at("configmaps", ns=other), config_map("late"))
    await api.post(api.at("gadgets", ns=other), gadget("late"))
    await api.apply(api.at("configmaps", "late", ns=other), config_map("late"))
    await api.patch(api.at("configmaps", "held", ns=other), {"data": {"still": "writable"}})
    await api.get(f"/apis/{GROUP}/v1/namespaces/{other}/gadgets")


@scenario
async def test_terminating_definition_takes_nothing_new(api: Api) -> None:
    group = group_of(api)
    path = await install(api, definition("things", "Thing", OPEN, group=group))
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/things"

    def thing(name: str, **meta: Json) -> Body:
        return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name, **meta}}

    await api.post(things, thing("held", finalizers=["a.b/c"]))
    await api.request("DELETE", path)
    await api.until(f"{things}/held", lambda a: "deletionTimestamp" in a["metadata"])
    await api.post(things, thing("late"))
    await api.post(f"{things}?dryRun=All", thing("late"))
    await api.post(things, {"kind": "Other"})
    await api.apply(f"{things}/late", thing("late"))
    await api.patch(f"{things}/held", {"spec": {"still": "writable"}})
    await api.get(things)
    await api.patch(f"{things}/held", {"metadata": {"finalizers": None}})
    await api.until(path, lambda answer: answer.status == 404)
