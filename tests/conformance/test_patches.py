"""JSON patch, merge patch and strategic merge patch: their effects and their refusals."""

from __future__ import annotations

from tests.conformance.samples import config_map, gadget, pod, workload
from tests.conformance.script import JSON, PATCH_TYPES, Api, scenario
from tests.conformance.wire import Json


@scenario
async def test_json_patch_changes_a_config_map(api: Api) -> None:
    one = api.at("configmaps", "one")
    await api.post(api.at("configmaps"), config_map("one", {"a": "1", "b": "2"}))
    await api.patch(one, {"metadata": {"annotations": {"x.y/z": "3"}}})
    patches: tuple[Json, ...] = (
        [{"op": "add", "path": "/data/c", "value": "3"}],
        [{"op": "replace", "path": "/data/a", "value": "9"}],
        [{"op": "remove", "path": "/metadata/annotations/x.y~1z"}],
        [{"op": "copy", "from": "/data/a", "path": "/data/copied"}],
        [{"op": "move", "from": "/data/copied", "path": "/data/moved"}],
        [{"op": "test", "path": "/data/a", "value": "9"}, {"op": "remove", "path": "/data/a"}],
        [{"op": "test", "path": "/data/b", "value": "nope"}],
        [{"op": "test", "path": "/data/nope", "value": None}],
        [{"op": "remove", "path": "/data/nope"}],
        [{"op": "replace", "path": "/data/nope", "value": "1"}],
        [{"op": "add", "path": "/nope/deeper", "value": "1"}],
        [{"op": "copy", "from": "/data/nope", "path": "/data/q"}],
        [{"op": "frob", "path": "/data/b"}],
        [{"op": "add", "path": "data/b", "value": "1"}],
        [{"op": "add", "path": "/data/q"}],
        [{"path": "/data/b"}],
        [{"op": "add"}],
        [],
        {"op": "add", "path": "/data/b", "value": "1"},
        ["text"],
        b"null",
        [{"op": "add", "path": "/metadata/labels", "value": {"l": "1"}}],
        [{"op": "replace", "path": "", "value": {}}],
        [{"op": "add", "path": "/metadata/finalizers/-", "value": "a.b/c"}],
        [{"op": "add", "path": "/data/n", "value": 1}],
    )
    for patch in patches:
        await api.patch(one, patch, "json")


@scenario
async def test_json_patch_changes_lists(api: Api) -> None:
    one = api.at("gadgets", "one")
    await api.post(api.at("gadgets"), gadget("one", {"size": 3, "plain": [1, 2, 3]}))
    for patch in (
        [{"op": "add", "path": "/spec/plain/-", "value": 4}],
        [{"op": "add", "path": "/spec/plain/0", "value": 0}],
        [{"op": "remove", "path": "/spec/plain/1"}],
        [{"op": "replace", "path": "/spec/plain/0", "value": 7}],
        [{"op": "remove", "path": "/spec/plain/9"}],
        [{"op": "add", "path": "/spec/plain/9", "value": 1}],
        [{"op": "replace", "path": "/spec/plain/x", "value": 1}],
        [{"op": "replace", "path": "/spec/size", "value": "text"}],
        [{"op": "remove", "path": "/spec/size"}],
        [{"op": "remove", "path": "/spec"}],
        [{"op": "replace", "path": "/metadata/name", "value": "two"}],
        [{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}],
        [{"op": "remove", "path": "/spec/plain/-1"}],  # last: the servers differ from here on
    ):
        await api.patch(one, patch, "json")


@scenario
async def test_merge_patch_changes_a_config_map(api: Api) -> None:
    one = api.at("configmaps", "one")
    made = await api.post(api.at("configmaps"), config_map("one", {"a": "1", "b": "2"}))
    patches: tuple[Json, ...] = (
        {"data": {"a": None, "c": "3"}},
        {"data": {"nope": None}},
        {"data": None},
        {},
        {"data": {"a": 1}},
        {"data": "text"},
        {"kind": "Secret"},
        {"apiVersion": "v2"},
        {"metadata": {"name": "other"}},
        {"metadata": {"namespace": "other"}},
        {"metadata": {"uid": "other"}},
        {"metadata": {"resourceVersion": made.version}},
        {"metadata": {"resourceVersion": "1"}, "data": {"z": "1"}},
        {"metadata": {"labels": {"a": "b", "-": "x"}}},
        {"metadata": {"annotations": {"a": None}}},
        [],
        "text",
        b"null",
        1,
    )
    for patch in patches:
        await api.patch(one, patch)


@scenario
async def test_merge_patch_changes_a_custom_object(api: Api) -> None:
    one = api.at("gadgets", "one")
    made = await api.post(api.at("gadgets"), gadget("one", {"size": 3, "labels": {"a": "b"}}))
    patches: tuple[Json, ...] = (
        {"spec": {"labels": {"a": None, "c": "d"}}},
        {"spec": {"mode": None}},
        {"spec": {"inner": {"depth": None}}},
        {"spec": {"parts": [{"id": "a"}]}},
        {"spec": {"note": None}},
        {"spec": {"size": None}},
        {"spec": None},
        {"status": {"phase": "Ready"}},
        {"metadata": {"resourceVersion": made.version}},
        {"metadata": {"resourceVersion": None}},
        {"apiVersion": "conformance.example.com/v2"},
        {"kind": "Other"},
        [],
        b"null",
    )
    for patch in patches:
        await api.patch(one, patch)


@scenario
async def test_strategic_patch_merges_lists_by_key(api: Api) -> None:
    one = api.at("deployments", "one")
    body = workload("Deployment", "one")
    main = body["spec"]["template"]["spec"]["containers"][0]
    main["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    main["ports"] = [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}]
    await api.post(api.at("deployments"), body)

    async def containers(*patches: object, **more: object) -> None:
        inner = {"containers": list(patches), **more}
        await api.patch(one, {"spec": {"template": {"spec": inner}}}, "strategic")

    await containers({"name": "main", "image": "nginx:2"})
    await containers({"name": "side", "image": "busybox"})
    await containers({"name": "main", "env": [{"name": "B", "value": "9"}, {"name": "C"}]})
    await containers({"name": "main", "env": [{"name": "A", "$patch": "delete"}]})
    await containers({"name": "side", "$patch": "delete"})
    await containers({"name": "main", "ports": [{"containerPort": 80, "name": "web"}]})
    await containers({"name": "main", "args": ["x", "y"]})
    await containers({"name": "main", "args": ["z"]})
    await containers({"name": "main", "args": None})
    await containers({"image": "nokey"})
    await containers({"name": "new", "image": "n"}, {"$patch": "replace"})
    volumes = [{"name": "v", "emptyDir": {}}]
    await containers({"name": "new"}, volumes=volumes)
    order = {"$setElementOrder/containers": [{"name": "new"}, {"name": "zzz"}]}
    await containers({"name": "zzz", "image": "z"}, **order)
    retain = {"name": "v", "hostPath": {"path": "/x"}, "$retainKeys": ["name", "hostPath"]}
    await containers({"name": "new"}, volumes=[retain])


@scenario
async def test_strategic_patch_directives_are_obeyed(api: Api) -> None:
    one = api.at("configmaps", "one")
    await api.post(api.at("configmaps"), config_map("one", {"a": "1", "b": "2"}))
    patches: tuple[Json, ...] = (
        {"data": {"a": None, "c": "3"}},
        {"data": {"$patch": "replace", "only": "1"}},
        {"data": {"$patch": "delete"}},
        {"data": {"$patch": "explode"}},
        {"metadata": {"finalizers": ["a.b/c"]}},
        {"metadata": {"finalizers": ["a.b/d"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/d"]}},
        {"metadata": {"resourceVersion": "1"}},
        {"metadata": {"labels": {"a": "b"}}},
        {"data": {"a": 1}},
        {"data": []},
        [],
        b"null",
    )
    for patch in patches:
        await api.patch(one, patch, "strategic")


@scenario
async def test_strategic_patch_changes_a_node_and_a_service(api: Api) -> None:
    node = f"/api/v1/nodes/node-{api.namespace}"
    await api.post("/api/v1/nodes", {"metadata": {"name": f"node-{api.namespace}"}})
    for kind, status in (("Ready", "True"), ("Disk", "False"), ("Ready", "False")):
        conditions = [{"type": kind, "status": status}]
        await api.patch(f"{node}/status", {"status": {"conditions": conditions}}, "strategic")
    addresses = [{"type": "Hostname", "address": "h"}]
    await api.patch(f"{node}/status", {"status": {"addresses": addresses}}, "strategic")
    await api.delete(node)
    ports = [{"port": 80, "name": "a"}]
    await api.post(api.at("services"), {"metadata": {"name": "one"}, "spec": {"ports": ports}})
    more = [{"port": 81, "name": "b"}]
    await api.patch(api.at("services", "one"), {"spec": {"ports": more}}, "strategic")
    less = [{"port": 80, "$patch": "delete"}]
    await api.patch(api.at("services", "one"), {"spec": {"ports": less}}, "strategic")


@scenario
async def test_patches_of_the_wrong_shape_or_type_are_refused(api: Api) -> None:
    maps, gadgets = api.at("configmaps", "one"), api.at("gadgets", "one")
    await api.post(api.at("configmaps"), config_map("one"))
    await api.post(api.at("gadgets"), gadget("one"))
    for path in (maps, gadgets):
        for kind in PATCH_TYPES:
            await api.patch(f"{path}?fieldManager=m1", b"[{", kind)
            await api.patch(f"{path}?fieldManager=m1", b"", kind)
        await api.send("PATCH", path, {}, content_type=JSON)
        await api.send("PATCH", path, {}, content_type="text/plain")
        await api.patch(f"{path}?force=true", {})
        await api.patch(f"{path}?force=yes&fieldManager=m", {}, "apply")
    await api.patch(gadgets, {"spec": {"size": 4}}, "strategic")


@scenario
async def test_patched_pods_merge_their_containers(api: Api) -> None:
    await api.post(api.at("pods"), pod("one"))
    one = api.at("pods", "one")
    for patch in (
        {"spec": {"containers": [{"name": "main", "image": "other"}]}},
        {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
        {"spec": {"activeDeadlineSeconds": 5}},
        {"metadata": {"labels": {"new": "1"}, "annotations": {"a": "b"}}},
    ):
        await api.patch(one, patch, "strategic")
