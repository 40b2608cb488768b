"""Create, read, update and delete, of built-in and custom kinds."""

from __future__ import annotations

from tests.conformance.samples import GROUP, config_map, gadget, pod, trinket
from tests.conformance.script import Api, scenario

LEASES = "leases"


@scenario
async def test_config_map_is_created_changed_and_deleted(api: Api) -> None:
    maps, one = api.at("configmaps"), api.at("configmaps", "one")
    made = await api.post(maps, config_map("one", {"a": "1"}, labels={"l": "x"}))
    await api.get(one)
    await api.put(one, config_map("one", {"a": "2"}))
    await api.put(one, config_map("one", {"a": "3"}, resourceVersion=made.version))
    fresh = await api.get(one)
    await api.put(one, config_map("one", {"a": "3"}, resourceVersion=fresh.version))
    await api.put(one, config_map("one", {"a": "3"}))  # changes nothing: keeps its version
    await api.get(maps)
    await api.delete(one)
    await api.get(one)
    await api.delete(one)
    await api.put(one, config_map("one", {"a": "2"}))
    await api.get(maps)


@scenario
async def test_gadget_is_created_changed_and_deleted(api: Api) -> None:
    gadgets, one = api.at("gadgets"), api.at("gadgets", "one")
    made = await api.post(gadgets, gadget("one", labels={"l": "x"}))
    await api.get(one)
    await api.put(one, gadget("one", {"size": 4}))
    await api.put(one, gadget("one", {"size": 4}, resourceVersion=made.version))
    await api.put(one, gadget("one", {"size": 5}, resourceVersion=made.version))
    fresh = await api.get(one)
    await api.put(one, gadget("one", {"size": 4}, resourceVersion=fresh.version))
    await api.get(gadgets)
    await api.delete(one)
    await api.get(one)
    await api.delete(one)
    await api.get(gadgets)


@scenario
async def test_same_name_twice_is_a_conflict(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("one"))
    await api.post(api.at("configmaps"), config_map("one"))
    await api.post(api.at("gadgets"), gadget("one"))
    await api.post(api.at("gadgets"), gadget("one"))
    await api.post("/api/v1/namespaces", {"metadata": {"name": api.namespace}})


@scenario
async def test_put_must_name_the_object_of_the_path(api: Api) -> None:
    one = api.at("configmaps", "one")
    await api.post(api.at("configmaps"), config_map("one"))
    await api.put(one, config_map("other"))
    await api.put(one, {"metadata": {}})
    await api.put(one, config_map("one", namespace="elsewhere"))
    await api.put(one, config_map("one", uid="not-this-one"))
    await api.put(one, config_map("one", resourceVersion="abc"))
    await api.put(one, config_map("one", resourceVersion="1"))
    await api.post(api.at("configmaps"), config_map("two", namespace="elsewhere"))
    await api.post(api.at("configmaps"), config_map("two", resourceVersion="1"))
    await api.post(api.at("configmaps"), {"metadata": {}})
    await api.post(api.at("gadgets"), {**gadget("x"), "metadata": {}})
    await api.post(api.at("gadgets"), gadget("x", namespace="elsewhere"))


@scenario
async def test_server_owned_metadata_cannot_be_set(api: Api) -> None:
    body = config_map(
        "one",
        uid="mine",
        creationTimestamp="2020-01-01T00:00:00Z",
        generation=7,
        selfLink="/x",
        deletionTimestamp="2020-01-01T00:00:00Z",
        deletionGracePeriodSeconds=3,
        managedFields=[],
    )
    made = await api.post(api.at("configmaps"), body)
    again = config_map("one", uid=made.uid, creationTimestamp="2020-01-01T00:00:00Z", generation=9)
    await api.put(api.at("configmaps", "one"), again)
    thing = gadget("one", generation=7, creationTimestamp="2020-01-01T00:00:00Z")
    await api.post(api.at("gadgets"), thing)
    await api.patch(api.at("gadgets", "one"), {"metadata": {"generation": 9}})
    await api.patch(api.at("gadgets", "one"), {"metadata": {"creationTimestamp": None}})
    await api.patch(api.at("gadgets", "one"), {"metadata": {"uid": "other"}})
    await api.patch(api.at("gadgets", "one"), {"metadata": {"namespace": "other"}})
    await api.patch(api.at("gadgets", "one"), {"metadata": {"name": "other"}})


@scenario
async def test_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    one = api.at("gadgets", "one")
    await api.post(api.at("gadgets"), {**gadget("one"), "status": {"phase": "New"}})
    await api.patch(one, {"metadata": {"labels": {"a": "b"}}})
    await api.patch(one, {"spec": {"size": 4}})
    await api.patch(one, {"spec": {"size": 4}})
    await api.patch(one, {"status": {"phase": "Ready"}})
    await api.patch(f"{one}/status", {"status": {"phase": "Ready"}, "spec": {"size": 9}})
    await api.patch(f"{one}/status", {"metadata": {"labels": {"c": "d"}, "finalizers": ["a.b/c"]}})
    await api.get(f"{one}/status")
    fresh = await api.get(one)
    status = {**fresh.body, "status": {"phase": "Gone"}, "spec": {"size": 1}}
    await api.put(f"{one}/status", status)
    await api.put(f"{one}/status", {**status, "status": {"phase": "Bad"}})
    await api.post(f"{one}/status", status)
    await api.delete(f"{one}/status")


@scenario
async def test_custom_kind_without_status_subresource_takes_status_as_a_field(api: Api) -> None:
    prefix = f"/apis/{GROUP}"
    name = f"t-{api.namespace}"
    await api.post(f"{prefix}/v1/trinkets", trinket(name, status={"a": 1}, anything=[1, {"b": 2}]))
    await api.get(f"{prefix}/v1/trinkets/{name}/status")
    await api.patch(f"{prefix}/v1/trinkets/{name}", {"status": {"a": 2}})
    await api.patch(f"{prefix}/v1/trinkets/{name}", {"anything": None})
    await api.get(f"{prefix}/v1beta1/trinkets/{name}")
    await api.patch(f"{prefix}/v1beta1/trinkets/{name}", {"beta": True})
    await api.get(f"{prefix}/v1/trinkets/{name}")
    await api.delete(f"{prefix}/v1/trinkets/{name}")


@scenario
async def test_unknown_things_are_not_found(api: Api) -> None:
    for path in (
        api.at("configmaps", "nope"),
        api.at("gadgets", "nope"),
        api.at("nopes"),
        f"/apis/{GROUP}/v1/namespaces/{api.namespace}/nopes",
        f"/apis/{GROUP}/v9/namespaces/{api.namespace}/gadgets",
        "/apis/nope.example.com/v1/things",
        "/apis/apps/v9/deployments",
        "/apis/apps/v1/nopes",
        "/nope",
        "/api/v2",
        api.at("pods", "one/nope"),
        api.at("gadgets", "one/nope"),
        api.at("configmaps", "one/status"),
        f"/api/v1/namespaces/{api.namespace}/nodes",
        "/apis/apps/v1/namespaces/x/deployments/nope",
        f"/apis/{GROUP}/v1/gadgets/nope",
        f"/apis/{GROUP}/v1/namespaces/{api.namespace}/trinkets/nope",
    ):
        await api.get(path)
    await api.get("/api/v1/namespaces/no-such/configmaps")
    await api.post("/api/v1/namespaces/no-such/configmaps", config_map("one"))
    await api.post(f"/apis/{GROUP}/v1/namespaces/no-such/gadgets", gadget("one"))
    await api.delete(api.at("gadgets", "nope"))
    await api.patch(api.at("gadgets", "nope"), {"spec": {"size": 2}})
    await api.patch(api.at("configmaps", "nope"), {"data": {}}, "strategic")


@scenario
async def test_methods_that_a_path_does_not_have_are_refused(api: Api) -> None:
    maps, gadgets = api.at("configmaps"), api.at("gadgets")
    await api.post(maps, config_map("one"))
    await api.post(gadgets, gadget("one"))
    for path, body in ((maps, config_map("one")), (gadgets, gadget("one"))):
        await api.put(path, body)
        await api.patch(path, {})
        await api.post(f"{path}/one", body)
        await api.send("FOO", path)
        await api.send("OPTIONS", path)
    await api.post("/api/v1/configmaps", config_map("one"))
    await api.post(f"/apis/{GROUP}/v1/gadgets", gadget("one"))
    await api.delete("/api/v1/configmaps")
    await api.delete("/api/v1/namespaces")
    await api.get("/apis/authentication.k8s.io/v1/selfsubjectreviews")


@scenario
async def test_put_creates_what_may_be_created_by_put(api: Api) -> None:
    lease = {"metadata": {"name": "one"}, "spec": {"holderIdentity": "me"}}
    await api.put(api.at(LEASES, "one"), lease)
    await api.put(api.at(LEASES, "one"), lease)
    await api.put(api.at("events", "one"), {"metadata": {"name": "one"}})
    await api.put(api.at("secrets", "one"), {"metadata": {"name": "one"}})
    await api.put(api.at("services", "one"), {"metadata": {"name": "one"}})
    await api.put(api.at("pods", "one"), pod("one"))
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{api.namespace}/roles/one"
    await api.put(role, {"metadata": {"name": "one"}, "rules": []})


@scenario
async def test_dry_run_answers_and_stores_nothing(api: Api) -> None:
    maps, gadgets = api.at("configmaps"), api.at("gadgets")
    await api.post(f"{maps}?dryRun=All", config_map("one"))
    await api.post(f"{gadgets}?dryRun=All", gadget("one"))
    await api.post(f"{gadgets}?dryRun=All", gadget("one", {"size": 11}))
    await api.get(f"{maps}/one")
    await api.get(f"{gadgets}/one")
    await api.post(maps, config_map("one"))
    await api.post(gadgets, gadget("one"))
    await api.put(f"{maps}/one?dryRun=All", config_map("one", {"z": "z"}))
    await api.patch(f"{gadgets}/one?dryRun=All", {"spec": {"size": 9}})
    await api.apply(f"{gadgets}/two", gadget("two"), query="&dryRun=All")
    await api.delete(f"{maps}/one?dryRun=All")
    await api.delete(f"{gadgets}/one", {"dryRun": ["All"]})
    await api.delete(f"{gadgets}?dryRun=All")
    await api.get(maps)
    await api.get(gadgets)
    await api.post(f"{maps}?dryRun=Some", config_map("two"))
    await api.post(f"{gadgets}?dryRun=", gadget("two"))
    await api.delete(f"{maps}/one?dryRun=Some")


@scenario
async def test_field_manager_names_are_recorded(api: Api) -> None:
    maps = api.at("configmaps")
    await api.post(f"{maps}?fieldManager=first", config_map("one"))
    await api.patch(f"{maps}/one?fieldManager=another", {"data": {"b": "1"}})
    await api.patch(f"{maps}/one", {"data": {"c": "1"}})
    await api.put(f"{maps}/one?fieldManager=third", config_map("one", {"a": "9"}))
    await api.post(f"{maps}?fieldManager={'x' * 129}", config_map("two"))
    await api.post(f"{maps}?fieldManager=%01", config_map("two"))


@scenario
async def test_namespace_is_created_changed_and_kept_when_built_in(api: Api) -> None:
    name = f"{api.namespace}-b"
    body = {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": "wrong"}}}
    await api.post("/api/v1/namespaces", body)
    await api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": {"a": "b"}}})
    await api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": None}})
    await api.get(f"/api/v1/namespaces/{name}")
    await api.post("/api/v1/namespaces", {"metadata": {"name": "Not_Good"}})
    await api.post("/api/v1/namespaces", {"metadata": {"name": "x" * 64}})
    for name in ("default", "kube-system", "kube-public"):
        await api.delete(f"/api/v1/namespaces/{name}")
    await api.get("/api/v1/namespaces/default")
