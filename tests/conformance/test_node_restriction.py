"""What a kubelet's certificate writes: its own Node, its Lease, pods that run on it.

The kubelet is in `system:masters` here, so that no role refuses what these rules are about.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.samples import kubelet
from tests.conformance.script import Api, scenario
from tests.conformance.wire import Body, Json

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
NODES = "/api/v1/nodes"
MIRROR = {"kubernetes.io/config.mirror": "x"}
GUARDED = "node-restriction.kubernetes.io/bmc"

LABELS = (
    *(
        GUARDED,
        "example.com.node-restriction.kubernetes.io/bmc",
        "xnode-restriction.kubernetes.io/b",
    ),
    *("example.com/bmc", "bmc", "lab.cobalt/bmc-port", "node-role.kubernetes.io/control-plane"),
    *("kubernetes.io/hostname", "kubernetes.io/arch", "topology.kubernetes.io/zone"),
    *("topology.kubernetes.io/rack", "kubelet.kubernetes.io/a", "a.kubelet.kubernetes.io/a"),
    *("node.kubernetes.io/a", "node.kubernetes.io/instance-type", "beta.kubernetes.io/os"),
    *("a.k8s.io/b", "k8s.io/b", "kubernetes.io/b", "failure-domain.beta.kubernetes.io/zone"),
)


def node(name: str, **labels: str) -> Body:
    meta: Body = {"name": name, "labels": labels} if labels else {"name": name}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta}


def pod(name: str, on: str, **meta: Json) -> Body:
    spec: Body = {"nodeName": on, "containers": [{"name": "a", "image": "a"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


def names(api: Api) -> tuple[str, str]:
    return f"{api.namespace}-a", f"{api.namespace}-b"


@scenario
async def test_kubelet_creates_its_own_node_and_no_other(api: Api) -> None:
    own, other = names(api)
    acting = kubelet(own)
    await api.send("POST", NODES, node(other), acting=acting)
    await api.send("POST", NODES, node(own, **{GUARDED: "7003"}), acting=acting)
    await api.send("POST", NODES, node(own, **{"kubernetes.io/b": "x"}), acting=acting)
    await api.send("POST", NODES, node(own, **{"example.com/b": "x"}), acting=acting)
    await api.send("POST", NODES, node(other), acting=kubelet(""))
    outsider = [("User", f"system:node:{own}"), ("Group", "system:masters")]
    await api.send("POST", NODES, node(other, **{GUARDED: "1"}), acting=outsider)
    for name in (own, other):
        await api.request("DELETE", f"{NODES}/{name}")


@scenario
async def test_kubelet_writes_no_label_that_administrators_choose_by(api: Api) -> None:
    own, other = names(api)
    held = {GUARDED: "7001", "example.com/bmc": "7001"}
    for name in (own, other):
        await api.request("POST", NODES, node(name, **held))
    for place in (f"{NODES}/{own}", f"{NODES}/{own}/status"):
        for label in LABELS:
            change = {"metadata": {"labels": {label: "7003"}}}
            await api.send("PATCH", place, change, content_type=MERGE, acting=kubelet(own))
        gone: Json = {"metadata": {"labels": {GUARDED: None}}}
        await api.send("PATCH", place, gone, content_type=STRATEGIC, acting=kubelet(own))
        path = GUARDED.replace("/", "~1")
        step = [{"op": "replace", "path": f"/metadata/labels/{path}", "value": "7003"}]
        await api.send("PATCH", place, step, content_type=JSON_PATCH, acting=kubelet(own))
        applied = node(own, **{GUARDED: "7003"})
        await api.send(
            "PATCH",
            f"{place}?fieldManager=k&force=true",
            applied,
            content_type=APPLY,
            acting=kubelet(own),
        )
    stored = (await api.request("GET", f"{NODES}/{own}")).body
    stored["metadata"]["labels"][GUARDED] = "7003"
    await api.send("PUT", f"{NODES}/{own}", stored, acting=kubelet(own))
    await api.send("PUT", f"{NODES}/{own}/status", stored, acting=kubelet(own))
    await api.send("GET", f"{NODES}/{own}")
    for name in (own, other):
        await api.request("DELETE", f"{NODES}/{name}")


@scenario
async def test_kubelet_writes_no_other_node_and_no_taint(api: Api) -> None:
    own, other = names(api)
    for name in (own, other):
        await api.request("POST", NODES, node(name))
    tainted = {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}
    marked = {"metadata": {"annotations": {"a": "b"}}}
    ready = {"status": {"conditions": [{"type": "Terminating", "status": "True"}]}}
    for name in (own, other):
        for path, change in (
            ("", tainted),
            ("", marked),
            ("/status", ready),
            ("/status", marked),
            ("", {"spec": {"unschedulable": True}}),
        ):
            await api.send(
                "PATCH", f"{NODES}/{name}{path}", change, content_type=MERGE, acting=kubelet(own)
            )
    await api.send("DELETE", f"{NODES}/{other}", acting=kubelet(own))
    await api.send("DELETE", f"{NODES}/{own}", acting=kubelet(own))
    await api.request("DELETE", f"{NODES}/{other}")


@scenario
async def test_kubelet_writes_its_own_lease_alone(api: Api) -> None:
    own, other = names(api)
    leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
    await api.request("POST", "/api/v1/namespaces", _space("kube-node-lease"))

    def lease(name: str) -> Body:
        kind: Body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        return kind | {"metadata": {"name": name}, "spec": {"holderIdentity": name}}

    for space in ("kube-node-lease", api.namespace):
        for name in (other, own):
            place = leases.format(space)
            await api.send("POST", place, lease(name), acting=kubelet(own))
            await api.request("POST", place, lease(name))
            change = {"spec": {"holderIdentity": "x"}}
            await api.send(
                "PATCH", f"{place}/{name}", change, content_type=MERGE, acting=kubelet(own)
            )
            await api.send("DELETE", f"{place}/{name}", acting=kubelet(own))
            await api.request("DELETE", f"{place}/{name}")


def _space(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def mirrors(own: str, other: str, uid: str) -> Iterator[Body]:
    """Pods that a kubelet may create, or not."""
    owner: Body = {"apiVersion": "v1", "kind": "Node", "name": own, "uid": uid, "controller": True}
    yield pod("a", own)
    yield pod("b", own, annotations=MIRROR)
    yield pod("c", other, annotations=MIRROR, ownerReferences=[owner])
    for wrong in ({"uid": "x"}, {"name": other}, {"kind": "Pod"}, {"blockOwnerDeletion": True}):
        yield pod("d", own, annotations=MIRROR, ownerReferences=[owner | wrong])
    yield pod("e", own, annotations=MIRROR, ownerReferences=[{**owner, "controller": False}])
    for more in (
        {"serviceAccountName": "default"},
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
        {"volumes": [{"name": "v", "configMap": {"name": "s"}}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "s"}}]},
        {"imagePullSecrets": [{"name": "s"}]},
        {
            "containers": [
                {"name": "a", "image": "a", "envFrom": [{"secretRef": {"name": "s"}}]},
            ]
        },
    ):
        made = pod("f", own, annotations=MIRROR, ownerReferences=[owner])
        yield {**made, "spec": made["spec"] | more}
    yield pod("g", own, annotations=MIRROR, ownerReferences=[owner])


@scenario
async def test_kubelet_creates_mirror_pods_and_writes_those_that_run_on_it(api: Api) -> None:
    own, other = names(api)
    pods = api.at("pods")
    uids = {}
    for name in (own, other):
        made = await api.request("POST", NODES, node(name))
        uids[name] = made.body["metadata"]["uid"]
    for body in mirrors(own, other, uids[own]):
        answer = await api.request("POST", pods, body, acting=kubelet(own))
        text = str(answer.body.get("message", "")).replace(uids[own], "[uid]")
        api.record(f"create {body['metadata']['name']}", f"{answer.status} {text}")
    for name, on in (("mine", own), ("theirs", other)):
        await api.request("POST", pods, pod(name, on))
        for change, path in (
            ({"metadata": {"labels": {"a": "b"}}}, ""),
            ({"status": {"phase": "Failed"}}, "/status"),
            ({"metadata": {"labels": {"a": "b"}}}, "/status"),
        ):
            answer = await api.request(
                "PATCH", f"{pods}/{name}{path}", change, content_type=MERGE, acting=kubelet(own)
            )
            api.record(f"patch {name}{path}", f"{answer.status} {answer.body.get('message', '')}")
        for who in (kubelet(other), kubelet(own)):
            place = f"{pods}/{name}?gracePeriodSeconds=0"
            answer = await api.request("DELETE", place, acting=who)
            api.record(f"delete {name}", f"{answer.status} {answer.body.get('message', '')}")
    for name in (own, other):
        await api.request("DELETE", f"{NODES}/{name}")


@scenario
async def test_kubelet_gets_tokens_for_its_own_pods_alone(api: Api) -> None:
    own, other = names(api)
    pods, accounts = api.at("pods"), api.at("serviceaccounts")
    account: Body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    await api.request("POST", accounts, account)
    uids = {}
    for name, on in (("mine", own), ("theirs", other)):
        made = pod(name, on)
        made["spec"]["serviceAccountName"] = "robot"
        answer = await api.request("POST", pods, made)
        uids[name] = answer.body["metadata"]["uid"]

    def ref(name: str, **more: str) -> Body:
        return {"apiVersion": "v1", "kind": "Pod", "name": name, **more}

    for about, bound in (
        ("no pod", None),
        ("a node", {"apiVersion": "v1", "kind": "Node", "name": own}),
        ("without uid", ref("mine")),
        ("another host's", ref("theirs", uid=uids["theirs"])),
        ("its own", ref("mine", uid=uids["mine"])),
    ):
        body: Body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        body |= {"spec": {"boundObjectRef": bound} if bound else {}}
        answer = await api.request("POST", f"{accounts}/robot/token", body, acting=kubelet(own))
        api.record(f"token for {about}", f"{answer.status} {answer.body.get('message', '')}")
