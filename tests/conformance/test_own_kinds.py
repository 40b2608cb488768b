"""Hypervisor, Eviction, Migration and OVSNode as `cobalt crds` defines them, on both servers."""

from __future__ import annotations

from tests.conformance.script import Api, scenario
from tests.conformance.wire import Body, Json

KVM = "/apis/kvm.cloud.sap"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SPEC: Body = {
    "reboot": False,
    "evacuateOnReboot": True,
    "lifecycleEnabled": True,
    "skipTests": False,
    "customTraits": ["CUSTOM_A"],
    "aggregates": [],
    "allowedProjects": [],
    "highAvailability": True,
    "createCertManagerCertificate": False,
    "installCertificate": True,
}


def hypervisor(name: str, **spec: Json) -> Body:
    return {
        "apiVersion": "kvm.cloud.sap/v1",
        "kind": "Hypervisor",
        "metadata": {"name": name},
        "spec": {**SPEC, **spec},
    }


@scenario
async def test_hypervisor_is_served_alike(api: Api) -> None:
    name = api.namespace
    one = f"{KVM}/v1/hypervisors/{name}"
    await api.post(f"{KVM}/v1/hypervisors", hypervisor(name))
    await api.patch(one, {"spec": {"maintenance": "manual"}})
    await api.patch(one, {"spec": {"maintenance": "manual", "maintenanceReason": "disk"}})
    await api.patch(one, {"spec": {"maintenance": "never"}})
    await api.patch(one, {"spec": {"overcommit": {"cpu": 0.5}}})
    await api.patch(one, {"spec": {"overcommit": {"cpu": 4, "memory": 1.0}}})
    await api.patch(one, {"spec": {"groups": [{}]}})
    await api.patch(one, {"spec": {"groups": [{"trait": {"name": ""}}]}})
    await api.patch(one, {"spec": {"groups": [{"trait": {"name": "T"}}]}})
    bad = {"aggregate": {"name": "a", "uuid": "not-a-uuid"}}
    await api.patch(one, {"spec": {"groups": [bad]}})
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "m",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    status: Body = {
        "numInstances": 2,
        "instances": [{"id": "i-1", "name": "n", "active": True}],
        "operatingSystem": {"prettyVersion": "Debian 12", "firmwareDate": None},
        "capacity": {"cpu": "64", "memory": "24560Mi"},
        "internalIp": "192.0.2.1",
        "conditions": [condition],
    }
    await api.patch(f"{one}/status", {"status": status})
    await api.patch(f"{one}/status", {"status": {"numInstances": None}})
    await api.patch(f"{one}/status", {"status": {"capacity": {"cpu": "many"}}})
    await api.patch(f"{one}/status", {"status": {"conditions": [{**condition, "reason": ""}]}})
    await api.send("GET", one, accept=TABLE)
    await api.patch(one, {"spec": {"maintenance": "termination"}})
    await api.patch(one, {"spec": {"version": "2"}})
    await api.patch(one, {"spec": {"maintenance": None}})
    await api.patch(one, {"metadata": {"labels": {"a": "b"}}})
    await api.patch(one, {"spec": {"maintenance": "ha", "version": "2"}})
    await api.delete(one)


@scenario
async def test_hypervisor_with_few_fields_is_served_alike(api: Api) -> None:
    name = api.namespace
    one = f"{KVM}/v1/hypervisors/{name}"
    bare = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor", "metadata": {"name": name}}
    await api.post(f"{KVM}/v1/hypervisors", bare)
    await api.patch(one, {"spec": {}})
    await api.send("GET", one, accept=TABLE)
    await api.apply(one, {**bare, "spec": {"highAvailability": False}}, "ha")
    await api.apply(one, {**bare, "spec": {"highAvailability": True}}, "operator")
    conditions = [{"type": "HaEnabled", "status": "True", "reason": "R", "message": ""}]
    conditions[0]["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    status = {**bare, "status": {"conditions": conditions}}
    await api.apply(f"{one}/status", status, "ha")
    await api.apply(f"{one}/status", {**bare, "status": {"numInstances": 0}}, "agent")
    await api.apply(f"{one}/status", status, "ha")
    await api.delete(one)


@scenario
async def test_eviction_is_served_alike(api: Api) -> None:
    name = api.namespace
    one = f"{KVM}/v1/evictions/{name}"
    body = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Eviction", "metadata": {"name": name}}
    await api.post(f"{KVM}/v1/evictions", body)
    await api.post(f"{KVM}/v1/evictions", {**body, "spec": {"hypervisor": "h", "reason": "r"}})
    await api.patch(one, {"spec": {"hypervisor": "other"}})
    await api.patch(one, {"spec": {"trigger": "Boredom"}})
    await api.patch(one, {"spec": {"instances": ["a", "a"], "parallelism": 0}})
    queue = {"outstandingInstances": ["a", "b"]}
    await api.patch(f"{one}/status", {"status": {**queue, "outstandingRamMb": 5}})
    await api.send("GET", one, accept=TABLE)
    await api.delete(one)


@scenario
async def test_migration_and_ovs_node_are_served_alike(api: Api) -> None:
    migrations = f"{KVM}/v1alpha1/namespaces/{api.namespace}/migrations"
    body = {"apiVersion": "kvm.cloud.sap/v1alpha1", "kind": "Migration", "metadata": {"name": "m"}}
    await api.post(migrations, body)
    await api.patch(f"{migrations}/m/status", {"status": {"origin": "a", "destination": "b"}})
    await api.patch(f"{migrations}/m/status", {"status": {"type": 5}})
    await api.send("GET", migrations, accept=TABLE)
    nodes = f"/apis/ovs.c5c3.io/v1alpha1/namespaces/{api.namespace}/ovsnodes"
    body = {"apiVersion": "ovs.c5c3.io/v1alpha1", "kind": "OVSNode", "metadata": {"name": "n"}}
    await api.post(nodes, body)
    await api.post(nodes, {**body, "spec": {"nodeRef": {"name": "n"}}})
    await api.send("GET", nodes, accept=TABLE)


@scenario
async def test_definitions_are_stored_alike(api: Api) -> None:
    for name in (
        "hypervisors.kvm.cloud.sap",
        "evictions.kvm.cloud.sap",
        "migrations.kvm.cloud.sap",
        "ovsnodes.ovs.c5c3.io",
    ):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        answer = await api.request("GET", path)
        api.record(f"GET {name}", [answer["spec"], answer["status"]["acceptedNames"]])
    for group in ("kvm.cloud.sap/v1", "kvm.cloud.sap/v1alpha1", "ovs.c5c3.io/v1alpha1"):
        answer = await api.request("GET", f"/apis/{group}")
        rows = [{**row, "storageVersionHash": ""} for row in answer["resources"]]
        api.record(f"resources of {group}", sorted(rows, key=lambda row: str(row["name"])))
