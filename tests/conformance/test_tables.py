"""Table answers: what `kubectl get` prints."""

from __future__ import annotations

from tests.conformance.samples import DEFINITIONS, config_map, gadget, pod, trinket, workload
from tests.conformance.script import Api, scenario
from tests.conformance.wire import Body, Json

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def table(api: Api, path: str) -> None:
    await api.send("GET", path, accept=TABLE)


@scenario
async def test_empty_tables_have_their_columns(api: Api) -> None:
    for resource in (
        "pods",
        "events",
        "secrets",
        "configmaps",
        "serviceaccounts",
        "services",
        "deployments",
        "daemonsets",
        "leases",
        "poddisruptionbudgets",
        "roles",
        "rolebindings",
        "gadgets",
    ):
        await table(api, api.at(resource))
    await table(api, f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events")
    for path in ("/api/v1/nodes", "/apis/conformance.example.com/v1/trinkets", DEFINITIONS):
        await table(api, f"{path}?labelSelector=no=such")
    for kind in ("clusterroles", "clusterrolebindings"):
        await table(api, f"/apis/rbac.authorization.k8s.io/v1/{kind}?labelSelector=no=such")


@scenario
async def test_cells_of_a_custom_kind_are_printed(api: Api) -> None:
    gadgets = api.at("gadgets")
    full = {
        "size": 3,
        "ratio": 1.5,
        "on": True,
        "mode": "none",
        "when": "2020-01-01T00:00:00Z",
        "set": ["a", "b"],
        "labels": {"x": "1", "a": "2"},
        "parts": [{"id": "p"}, {"id": "q"}],
    }
    zone = {"topology.kubernetes.io/zone": "z-1"}
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await api.post(gadgets, gadget("full", full, labels=zone))
    await api.patch(f"{gadgets}/full/status", ready)
    await api.post(gadgets, gadget("bare"))
    odd = {"size": 3, "ratio": 2, "on": False, "when": "2999-01-01T00:00:00Z", "set": []}
    await api.post(gadgets, gadget("odd", odd))
    await api.post(gadgets, gadget("more", {"size": 3, "ratio": 0.1, "labels": {}, "parts": []}))
    await table(api, gadgets)
    await table(api, f"{gadgets}/full")
    await table(api, f"{gadgets}?limit=1")
    await table(api, f"{gadgets}?includeObject=None")
    await table(api, f"{gadgets}/full?includeObject=Object")
    await table(api, f"{gadgets}?includeObject=Metadata")
    await table(api, f"{gadgets}?includeObject=Some")
    await table(api, f"{gadgets}/nope")
    await api.send("POST", f"{gadgets}?dryRun=All", gadget("new"), accept=TABLE)
    await api.send("DELETE", f"{gadgets}/bare?dryRun=All", accept=TABLE)
    merge = "application/merge-patch+json"
    patch = {"spec": {"size": 4}}
    await api.send("PATCH", f"{gadgets}/bare", patch, accept=TABLE, content_type=merge)
    name = f"t-{api.namespace}"
    path = f"/apis/conformance.example.com/v1/trinkets/{name}"
    await api.apply(path, trinket(name))
    await table(api, path)
    await api.delete(path)


@scenario
async def test_pod_rows_are_printed(api: Api) -> None:
    def container(ready: Json, restarts: int = 0, **state: Json) -> Body:
        return {
            "name": "main",
            "image": "i",
            "imageID": "",
            "ready": ready,
            "restartCount": restarts,
            "state": state,
        }

    since = "2020-01-01T00:00:00Z"
    statuses: dict[str, Body] = {
        "pending": {},
        "running": {
            "phase": "Running",
            "podIP": "10.9.9.9",
            "podIPs": [{"ip": "10.9.9.9"}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [container(True, 2, running={"startedAt": since})],
        },
        "crashing": {
            "phase": "Running",
            "containerStatuses": [container(False, 5, waiting={"reason": "CrashLoopBackOff"})],
        },
        "done": {
            "phase": "Succeeded",
            "containerStatuses": [
                container(False, terminated={"exitCode": 0, "reason": "Completed"})
            ],
        },
        "killed": {
            "phase": "Failed",
            "containerStatuses": [container(False, terminated={"exitCode": 137, "signal": 9})],
        },
        "evicted": {"phase": "Failed", "reason": "Evicted"},
    }
    for name, status in statuses.items():
        await api.post(api.at("pods"), pod(name, node="n-1"))
        if status:
            await api.patch(f"{api.at('pods', name)}/status", {"status": status})
    await api.delete(api.at("pods", "running"))
    await table(api, api.at("pods"))


@scenario
async def test_node_rows_are_printed(api: Api) -> None:
    bare, full = f"bare-{api.namespace}", f"full-{api.namespace}"
    label = {"only": api.namespace}
    await api.post("/api/v1/nodes", {"metadata": {"name": bare, "labels": label}})
    status = {
        "addresses": [
            {"type": "InternalIP", "address": "192.0.2.7"},
            {"type": "ExternalIP", "address": "198.51.100.7"},
        ],
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {
            **dict.fromkeys(("machineID", "systemUUID", "bootID", "kubeProxyVersion"), ""),
            "kernelVersion": "6.1",
            "osImage": "Debian",
            "kubeletVersion": "v1.36.0",
            "containerRuntimeVersion": "containerd://2",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }
    roles = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/a": ""}
    meta = {"name": full, "labels": {**label, **roles}}
    spec = {"unschedulable": True}
    await api.post("/api/v1/nodes", {"metadata": meta, "spec": spec, "status": status})
    await table(api, f"/api/v1/nodes?labelSelector=only%3D{api.namespace}")
    for name in (bare, full):
        await api.delete(f"/api/v1/nodes/{name}")


@scenario
async def test_workload_rows_are_printed(api: Api) -> None:
    await api.post(api.at("deployments"), workload("Deployment", "one"))
    status: Body = {"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}
    await api.patch(f"{api.at('deployments', 'one')}/status", status)
    await table(api, api.at("deployments"))
    await api.post(api.at("daemonsets"), workload("DaemonSet", "one"))
    numbers = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    counts = dict.fromkeys((*numbers, "updatedNumberScheduled"), 2)
    status = {"status": {**counts, "numberMisscheduled": 0}}
    await api.patch(f"{api.at('daemonsets', 'one')}/status", status)
    await table(api, api.at("daemonsets"))
    spec = {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "x"}}}
    budget = {"metadata": {"name": "one"}, "spec": spec}
    await api.post(api.at("poddisruptionbudgets"), budget)
    await table(api, api.at("poddisruptionbudgets"))


@scenario
async def test_rows_of_small_kinds_are_printed(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("one", {"a": "1", "b": "2"}))
    secret = {"metadata": {"name": "one"}, "data": {"a": "eHk="}}
    await api.post(api.at("secrets"), secret)
    await api.post(api.at("serviceaccounts"), {"metadata": {"name": "one"}})
    await api.post(api.at("leases"), {"metadata": {"name": "one"}, "spec": {"holderIdentity": "h"}})
    await api.post(api.at("leases"), {"metadata": {"name": "two"}})
    ports = [{"port": 80, "name": "a"}, {"port": 53, "protocol": "UDP", "name": "b"}]
    spec: Body = {"ports": ports, "selector": {"b": "2", "a": "1"}}
    await api.post(api.at("services"), {"metadata": {"name": "one"}, "spec": spec})
    spec = {"type": "ExternalName", "externalName": "x.y"}
    await api.post(api.at("services"), {"metadata": {"name": "two"}, "spec": spec})
    spec = {"type": "NodePort", "ports": ports[:1]}
    await api.post(api.at("services"), {"metadata": {"name": "three"}, "spec": spec})
    for resource in ("configmaps", "secrets", "serviceaccounts", "leases", "services"):
        await table(api, api.at(resource))
    await table(api, f"/api/v1/namespaces/{api.namespace}")
    await table(api, f"{DEFINITIONS}/gadgets.conformance.example.com")


@scenario
async def test_event_rows_are_printed(api: Api) -> None:
    about = {"kind": "Pod", "namespace": api.namespace, "name": "p"}
    old: Body = {
        "metadata": {"name": "old"},
        "involvedObject": about,
        "reason": "R",
        "message": " m ",
    }
    old |= {"type": "Normal", "source": {"component": "me", "host": "h"}, "count": 3}
    old |= {"firstTimestamp": "2020-01-01T00:00:00Z", "lastTimestamp": "2020-01-02T00:00:00Z"}
    await api.post(api.at("events"), old)
    new = {
        "metadata": {"name": "new"},
        "regarding": {**about, "fieldPath": "spec.x"},
        "reason": "R",
        "note": "n",
        "type": "Warning",
        "action": "A",
        "eventTime": "2020-01-01T00:00:00.5Z",
        "reportingController": "k.io/me",
        "reportingInstance": "me-1",
    }
    modern = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    await api.post(modern, new)
    await table(api, api.at("events"))
    await table(api, modern)
