"""Server-side apply: who owns what, conflicts, and what happens to fields that are not applied."""

from __future__ import annotations

from tests.conformance.samples import GROUP, config_map, gadget, pod, trinket, workload
from tests.conformance.script import YAML, Api, scenario
from tests.conformance.wire import Body


@scenario
async def test_two_managers_share_a_config_map(api: Api) -> None:
    one = api.at("configmaps", "one")
    await api.apply(one, config_map("one", {"a": "1", "b": "2"}, labels={"l": "1"}))
    await api.apply(one, config_map("one", {"a": "1", "b": "2"}, labels={"l": "1"}))
    await api.apply(one, config_map("one", {"a": "9"}, labels={"l": "9"}), "m2")
    await api.apply(one, config_map("one", {"a": "1", "c": "3"}), "m2")
    await api.apply(one, config_map("one", {"a": "9", "c": "3"}), "m2", force=True)
    await api.apply(one, config_map("one", {"b": "2"}), "m1")
    await api.apply(one, config_map("one", {}), "m2")
    await api.apply(one, {"apiVersion": "v1", "kind": "ConfigMap"}, "m1")
    await api.get(one)


@scenario
async def test_keyed_lists_and_sets_are_merged_and_atomic_values_replaced(api: Api) -> None:
    one = api.at("gadgets", "one")
    first = {
        "size": 3,
        "parts": [{"id": "a", "weight": 1}, {"id": "b", "zone": "there"}],
        "set": ["q", "r"],
        "labels": {"k": "v"},
        "whole": [{"a": "x"}],
        "sealed": {"a": "1"},
        "plain": [1, 2],
        "free": {"deep": {"er": 1}},
    }
    await api.apply(one, gadget("one", first))
    second: Body = {"parts": [{"id": "a", "weight": 5}, {"id": "c"}], "set": ["r", "s"]}
    await api.apply(one, gadget("one", second), "m2")
    await api.apply(one, gadget("one", second), "m2", force=True)
    for change in (
        {"whole": [{"a": "x"}, {"a": "y"}]},
        {"sealed": {"b": "2"}},
        {"plain": [1, 3]},
        {"free": {"deep": {"other": 1}}},
        {"labels": {"k": "other", "n": "m"}},
        {"mode": "none"},
    ):
        await api.apply(one, gadget("one", {**second, **change}), "m3")
    await api.apply(one, gadget("one", {"sealed": {"b": "2"}}), "m3", force=True)
    await api.apply(one, gadget("one", {"size": 3}))
    await api.apply(one, gadget("one", {}), "m2")
    await api.get(one)


@scenario
async def test_merged_lists_have_the_same_order(api: Api) -> None:
    one = api.at("gadgets", "one")
    for manager, ids in (("m1", "ad"), ("m2", "dba"), ("m3", "ce"), ("m1", "da")):
        parts = [{"id": name, "zone": "z"} for name in ids]
        body = gadget("one", {"size": 3, "parts": parts, "set": list(ids)})
        await api.apply(one, body, manager, force=True)


@scenario
async def test_apply_and_update_have_managers_of_their_own(api: Api) -> None:
    one = api.at("gadgets", "one")
    await api.post(f"{api.at('gadgets')}?fieldManager=u1", gadget("one", {"size": 3, "on": True}))
    await api.apply(one, gadget("one", {"size": 4}))
    await api.apply(one, gadget("one", {"size": 4}), force=True)
    await api.patch(f"{one}?fieldManager=u2", {"spec": {"size": 5, "set": ["a"]}})
    await api.apply(one, gadget("one", {"size": 4, "set": ["b"]}))
    await api.patch(f"{one}?fieldManager=u2", {"spec": {"on": None, "set": None}})
    await api.patch(f"{one}?fieldManager=u2", {"metadata": {"labels": {"a": "b"}}})
    await api.patch(f"{one}?fieldManager=u1", {"metadata": {"labels": {"a": "c"}}})
    fresh = await api.get(one)
    await api.put(f"{one}?fieldManager=u3", {**fresh.body, "spec": {"size": 6}})
    await api.apply(one, gadget("one", {"size": 6}), "u3")
    await api.apply(one, gadget("one", {"size": 7}), "u3")


@scenario
async def test_status_has_managers_of_its_own(api: Api) -> None:
    one = api.at("gadgets", "one")
    await api.apply(one, {**gadget("one"), "status": {"phase": "New"}})

    def status(*conditions: tuple[str, str], **more: object) -> Body:
        rows = [{"type": kind, "status": value} for kind, value in conditions]
        return {**gadget("one"), "status": {"conditions": rows, **more}}

    await api.apply(f"{one}/status", status(("A", "True"), phase="New"), "m1")
    await api.apply(f"{one}/status", status(("B", "True"), phase="Ready"), "m2")
    await api.apply(f"{one}/status", status(("B", "True")), "m2")
    await api.apply(f"{one}/status", status(("A", "False")), "m2")
    await api.apply(f"{one}/status", status(("A", "False")), "m2", force=True)
    await api.apply(f"{one}/status", status(), "m1")
    await api.patch(f"{one}/status?fieldManager=u1", {"status": {"seen": 3}})
    await api.apply(one, gadget("one", {"size": 4}), "m1")
    await api.apply(f"{one}/status", {**gadget("one"), "status": {"phase": "Odd"}}, "m1")
    await api.get(one)


@scenario
async def test_applied_deployment_shares_its_containers(api: Api) -> None:
    one = api.at("deployments", "one")
    body = workload("Deployment", "one")
    main = body["spec"]["template"]["spec"]["containers"][0]
    main |= {"ports": [{"containerPort": 80, "protocol": "TCP"}], "env": [{"name": "A"}]}
    await api.apply(one, body)
    side = workload("Deployment", "one")
    side["spec"]["template"]["spec"]["containers"] = [{"name": "side", "image": "s"}]
    await api.apply(one, side, "m2")
    await api.apply(one, {**body, "spec": {**body["spec"], "replicas": 3}})
    await api.patch(f"{one}?fieldManager=scaler", {"spec": {"replicas": 5}})
    await api.apply(one, {**body, "spec": {**body["spec"], "replicas": 3}})
    await api.apply(one, body)
    wrong = workload("Deployment", "one")
    wrong["spec"]["template"]["spec"]["containers"] *= 2
    await api.apply(one, wrong)
    wrong["spec"]["template"]["spec"]["containers"] = [{"image": "nokey"}]
    await api.apply(one, wrong)
    wrong["spec"]["replicas"] = "three"
    await api.apply(one, wrong)


@scenario
async def test_applied_service_and_pod_merge_their_lists(api: Api) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "one"}}
    spec = {"selector": {"app": "x"}, "ports": [{"port": 80, "name": "a", "protocol": "TCP"}]}
    await api.apply(api.at("services", "one"), {**service, "spec": spec})
    more = {"ports": [{"port": 81, "name": "b", "protocol": "TCP"}]}
    await api.apply(api.at("services", "one"), {**service, "spec": more}, "m2")
    no_protocol = {"ports": [{"port": 82, "name": "c"}]}
    await api.apply(api.at("services", "one"), {**service, "spec": no_protocol}, "m2")
    other = {"selector": {"app": "y"}}
    await api.apply(api.at("services", "one"), {**service, "spec": other}, "m3")
    await api.apply(api.at("pods", "one"), pod("one"))
    await api.apply(api.at("pods", "one"), pod("one", finalizers=["a.b/c"]), "m2")


@scenario
async def test_owner_references_and_finalizers_merge(api: Api) -> None:
    one = api.at("configmaps", "one")

    def owned(*uids: str, finalizers: tuple[str, ...] = ()) -> Body:
        owners = [
            # Neither server serves this kind: no collector can miss its objects.
            {"apiVersion": "elsewhere.example.com/v1", "kind": "Owner", "name": uid, "uid": uid}
            for uid in uids
        ]
        return config_map("one", {}, ownerReferences=owners, finalizers=list(finalizers))

    await api.apply(one, owned("u-1", finalizers=("a.b/one",)))
    await api.apply(one, owned("u-2", finalizers=("a.b/two",)), "m2")
    await api.apply(one, owned(), "m1")
    await api.apply(one, owned(), "m2")


@scenario
async def test_invalid_applies_are_refused(api: Api) -> None:
    one = api.at("configmaps", "one")
    await api.patch(one, config_map("one"), "apply")
    await api.apply(one, config_map("one", managedFields=[{"manager": "x"}]))
    await api.apply(one, config_map("one", uid="not-there"))
    await api.apply(one, config_map("one", resourceVersion="1"))
    await api.apply(one, config_map("one"))
    await api.apply(one, config_map("one", resourceVersion="1"))
    await api.apply(one, config_map("one", uid="not-there"))
    await api.apply(one, config_map("other"))
    await api.apply(one, config_map("one", namespace="other"))
    await api.apply(one, {**config_map("one"), "kind": "Secret"})
    await api.apply(one, {**config_map("one"), "apiVersion": "v2"})
    await api.apply(one, {"metadata": {"name": "one"}})
    await api.apply(one, {"apiVersion": "v1", "metadata": {"name": "one"}})
    await api.apply(one, [])
    await api.apply(one, b"null")
    await api.apply(one, {**config_map("one"), "data": {"a": 1}})
    await api.apply(one, {**config_map("one"), "data": ["a"]})
    await api.apply(api.at("gadgets", "one"), {**gadget("one"), "kind": "Other"})
    await api.apply(api.at("gadgets", "one"), {**gadget("one"), "apiVersion": f"{GROUP}/v2"})
    for spec in (
        {"size": 3, "parts": [{"id": "a"}, {"id": "a"}]},
        {"size": 3, "parts": [{"zone": "a"}]},
        {"size": 3, "parts": "text"},
        {"size": 3, "set": ["a", "a"]},
        {"size": "3"},
        {"size": 3, "inner": []},
        {"size": 11},
        {"size": 3, "unknown": 1},
        {"size": None},
        {},
    ):
        await api.apply(api.at("gadgets", "one"), gadget("one", spec))


@scenario
async def test_undeclared_fields_are_all_named(api: Api) -> None:
    ports = [{"containerPort": 1, "nope": 1}, {"containerPort": 1}]
    for spec in (
        {"nope": 1},
        {"containers": [{"name": "a", "ports": ports}, {"name": "b", "nope": {}}, {"name": "a"}]},
    ):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}
        for validation in ("Ignore", "Strict"):
            await api.apply(api.at("pods", "one"), body, query=f"&fieldValidation={validation}")


@scenario
async def test_apply_accepts_yaml(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata: {a: 'yes', b: '1'}\n"
    await api.apply(api.at("configmaps", "one"), text)
    await api.apply(api.at("configmaps", "one"), text.replace(b"'1'", b"1"))
    await api.send("POST", api.at("configmaps"), text.replace(b"one", b"two"), content_type=YAML)


@scenario
async def test_apply_merges_a_kind_without_schema(api: Api) -> None:
    name = f"t-{api.namespace}"
    path = f"/apis/{GROUP}/v1/trinkets/{name}"
    await api.apply(path, trinket(name, spec={"a": 1, "list": [1, 2], "map": {"x": {"y": 1}}}))
    await api.apply(path, trinket(name, spec={"list": [1], "map": {"x": {"z": 1}}}), "m2")
    await api.apply(path, trinket(name, spec={"map": {"x": {"z": 1}}}), "m2")
    beta = {**trinket(name, spec={"a": 2}), "apiVersion": f"{GROUP}/v1beta1"}
    await api.apply(f"/apis/{GROUP}/v1beta1/trinkets/{name}", beta, "m3")
    await api.apply(f"/apis/{GROUP}/v1beta1/trinkets/{name}", beta, "m3", force=True)
    await api.get(path)
    await api.delete(path)


@scenario
async def test_managed_fields_can_be_dropped_and_come_back(api: Api) -> None:
    one = api.at("configmaps", "one")
    await api.post(f"{api.at('configmaps')}?fieldManager=u1", config_map("one", {"a": "1"}))
    await api.patch(one, {"metadata": {"managedFields": [{}]}})
    await api.apply(one, config_map("one", {"b": "2"}))
    await api.apply(one, config_map("one", {"a": "2"}), "m2")
    await api.patch(one, {"metadata": {"managedFields": None}})
    await api.patch(one, {"metadata": {"managedFields": []}})
    bad = [{"manager": "x", "operation": "Strange", "apiVersion": "v1", "fieldsType": "FieldsV1"}]
    await api.patch(one, {"metadata": {"managedFields": bad}})
    stamp = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    mine = [{**stamp, "fieldsV1": {"f:data": {"f:a": {}}}}]
    await api.patch(one, {"metadata": {"managedFields": mine}})
    await api.get(one)


@scenario
async def test_kubectl_client_side_apply_is_taken_over(api: Api) -> None:
    one = api.at("configmaps", "one")
    note = "kubectl.kubernetes.io/last-applied-configuration"
    last = '{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"name":"one"}}\n'
    query = "?fieldManager=kubectl-client-side-apply"
    body = config_map("one", {"a": "1"}, annotations={note: last})
    await api.post(f"{api.at('configmaps')}{query}", body)
    await api.apply(one, config_map("one", {"a": "2"}), "kubectl")
    await api.apply(one, config_map("one", {"a": "1", "b": "3"}), "kubectl")
    await api.patch(f"{one}{query}", {"data": {"c": "1"}})


@scenario
async def test_forced_apply_moves_a_nested_object(api: Api) -> None:
    one = api.at("gadgets", "one")
    await api.apply(one, gadget("one", {"size": 3, "inner": {"depth": 1, "tags": ["a"]}}))
    await api.apply(one, gadget("one", {"inner": {"depth": 2}}), "m2")
    await api.apply(one, gadget("one", {"inner": {"depth": 2}}), "m2", force=True)
    await api.apply(one, gadget("one", {"size": 3, "inner": {}}))
    await api.apply(one, gadget("one", {"size": 3}))
    await api.apply(one, gadget("one", {}), "m2")
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "b"}}}
    await api.apply(one, gadget("one", {"size": 3, "template": template}))
    more = {**template, "metadata": {"name": "y"}}
    await api.apply(one, gadget("one", {"template": more}), "m2")


@scenario
async def test_updates_of_many_managers_are_merged(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("many"))
    for number in range(14):
        # Names in the order of time: within a second, entries are sorted by them.
        path = f"{api.at('configmaps', 'many')}?fieldManager=writer-{number:02}"
        await api.patch(path, {"data": {f"k{number}": "v"}})
    await api.apply(api.at("configmaps", "many"), config_map("many"))
    await api.get(api.at("configmaps", "many"))
