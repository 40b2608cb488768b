"""What the built-in kinds look like after defaulting, and what their validation refuses."""

from __future__ import annotations

from tests.conformance.samples import config_map, pod, workload
from tests.conformance.script import Api, scenario
from tests.conformance.wire import Body

EVENT_SERIES = "2020-01-01T00:00:00.000001Z"


def named(name: str, **content: object) -> Body:
    return {"metadata": {"name": name}, **content}


@scenario
async def test_pod_is_defaulted(api: Api) -> None:
    await api.post(api.at("pods"), pod("small"))
    big = pod("big", node="node-x")
    container = {
        "name": "main",
        "image": "registry.example.com/app@sha256:" + "a" * 64,
        "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "resources": {
            "limits": {"cpu": "1000m", "memory": "1024Mi"},
            "requests": {"cpu": "0.5"},
        },
        "livenessProbe": {"httpGet": {"port": 80}},
        "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 3},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }
    volumes = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "host", "hostPath": {"path": "/x"}},
    ]
    big["spec"] |= {
        "containers": [container],
        "initContainers": [{"name": "init", "image": "busybox:latest"}],
        "volumes": volumes,
        "hostNetwork": True,
        "tolerations": [{"operator": "Exists"}],
    }
    await api.post(api.at("pods"), big)
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "busybox:2"}]
    await api.patch(api.at("pods", "small"), image, "json")
    ready = {"type": "Ready", "status": "True"}
    await api.patch(
        api.at("pods", "small/status"), {"status": {"phase": "Running", "conditions": [ready]}}
    )


@scenario
async def test_pod_is_validated(api: Api) -> None:
    pods = api.at("pods")
    await api.post(pods, {"metadata": {"name": "Bad_Name"}, "spec": {"containers": []}})
    await api.post(pods, {"metadata": {"name": "no-spec"}})
    await api.post(pods, {**pod("one"), "spec": {"containers": [{"name": "C_"}]}})
    twice = pod("one")
    twice["spec"]["containers"] *= 2
    await api.post(pods, twice)
    odd = pod("one")
    odd["spec"]["restartPolicy"] = "Sometimes"
    odd["spec"]["dnsPolicy"] = "None of these"
    await api.post(pods, odd)


@scenario
async def test_deployment_is_defaulted(api: Api) -> None:
    one = api.at("deployments", "one")
    await api.post(api.at("deployments"), workload("Deployment", "one"))
    strategy = {"type": "Recreate", "rollingUpdate": None}
    await api.patch(one, {"spec": {"replicas": 3, "strategy": strategy}})
    await api.patch(one, {"spec": {"replicas": None}})
    await api.patch(one, {"metadata": {"labels": {"a": "b"}}})
    await api.patch(one, {"spec": {"selector": {"matchLabels": {"app": "z"}}}})
    await api.patch(f"{one}/status", {"status": {"replicas": 2, "readyReplicas": 2}})
    bad = workload("Deployment", "two")
    bad["spec"]["selector"]["matchLabels"]["app"] = "y"
    await api.post(api.at("deployments"), bad)
    await api.post(api.at("deployments"), {"metadata": {"name": "two"}, "spec": {}})


@scenario
async def test_daemon_set_is_defaulted(api: Api) -> None:
    one = api.at("daemonsets", "one")
    await api.post(api.at("daemonsets"), workload("DaemonSet", "one"))
    await api.patch(one, {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}})
    await api.patch(one, {"spec": {"selector": {"matchLabels": {"app": "z"}}}})
    await api.post(api.at("daemonsets"), {"metadata": {"name": "two"}})


@scenario
async def test_service_is_defaulted(api: Api) -> None:
    services = api.at("services")
    one = {"selector": {"app": "x"}, "ports": [{"port": 80}]}
    await api.post(services, named("one", spec=one))
    await api.post(services, named("headless", spec={"clusterIP": "None", "ports": one["ports"]}))
    await api.post(services, named("out", spec={"type": "ExternalName", "externalName": "a.b"}))
    await api.post(services, named("node", spec={"type": "NodePort", "ports": one["ports"]}))
    await api.patch(api.at("services", "one"), {"spec": {"clusterIP": "10.0.0.99"}})
    await api.patch(api.at("services", "one"), {"spec": {"ports": None}})
    await api.post(services, named("none", spec={}))
    await api.post(services, named("Bad", spec=one))
    two = [{"port": 80}, {"port": 81}]
    await api.post(services, named("two", spec={"ports": two}))


@scenario
async def test_node_is_defaulted(api: Api) -> None:
    name = f"node-{api.namespace}"
    status = {
        "capacity": {"cpu": "4", "memory": "16384Ki"},
        "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    taints = [{"key": "a", "effect": "NoSchedule"}]
    await api.post("/api/v1/nodes", named(name, spec={"taints": taints}, status=status))
    await api.patch(f"/api/v1/nodes/{name}", {"status": {"capacity": {"cpu": "8"}}})
    await api.patch(f"/api/v1/nodes/{name}/status", {"status": {"capacity": {"cpu": "8"}}})
    await api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, "strategic")
    more = {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}
    await api.patch(f"/api/v1/nodes/{name}", more, "strategic")
    await api.patch(f"/api/v1/nodes/{name}", {"spec": {"podCIDR": "10.1.0.0/24"}})
    taints = [{"key": "a", "effect": "Nothing"}]
    await api.post("/api/v1/nodes", named("bad", spec={"taints": taints}))
    await api.delete(f"/api/v1/nodes/{name}")


@scenario
async def test_secret_is_defaulted(api: Api) -> None:
    secrets = api.at("secrets")
    await api.post(secrets, named("one", data={"z": "eHk="}, stringData={"a": "b", "z": "n"}))
    await api.patch(api.at("secrets", "one"), {"stringData": {"new": "x"}})
    await api.patch(api.at("secrets", "one"), {"data": {"z": None}})
    await api.patch(api.at("secrets", "one"), {"type": "other"})
    await api.post(secrets, named("bad", data={"z": "%%%"}))
    await api.post(secrets, named("bad", data={"not a key": "eHk="}))
    await api.post(secrets, named("bad", data={"z": "eHk="}, type="kubernetes.io/tls"))
    tls = {"tls.crt": "eHk=", "tls.key": "eHk="}
    await api.post(secrets, named("tls", data=tls, type="kubernetes.io/tls"))
    await api.post(secrets, named("fixed", data=tls, immutable=True))
    await api.patch(api.at("secrets", "fixed"), {"data": {"tls.crt": "eHl6"}})
    await api.patch(api.at("secrets", "fixed"), {"immutable": False})
    await api.patch(api.at("secrets", "fixed"), {"metadata": {"labels": {"a": "b"}}})


@scenario
async def test_config_map_is_validated(api: Api) -> None:
    maps = api.at("configmaps")
    await api.post(maps, named("one", data={"a": "b"}, binaryData={"z": "eHk="}))
    await api.post(maps, named("bad", data={"a": "b"}, binaryData={"a": "eHk="}))
    await api.post(maps, named("bad", data={"a b": "b", "..": "x"}))
    await api.post(maps, named("fixed", data={"a": "b"}, immutable=True))
    await api.patch(api.at("configmaps", "fixed"), {"data": {"a": "c"}})
    await api.post(maps, config_map("empty", {}))
    await api.post(maps, {"metadata": {"name": "null"}, "data": None})
    await api.post(maps, {"metadata": {"name": "null-value"}, "data": {"a": None}})


@scenario
async def test_lease_is_validated(api: Api) -> None:
    leases = api.at("leases")
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2020-01-01T00:00:00Z",
        "renewTime": "2020-01-01T01:02:03.5+01:00",
        "leaseTransitions": 0,
    }
    await api.post(leases, named("one", spec=spec))
    await api.post(leases, named("zero", spec={"leaseDurationSeconds": 0}))
    await api.post(leases, named("empty"))
    await api.post(leases, named("time", spec={"renewTime": "yesterday"}))
    await api.patch(api.at("leases", "one"), {"spec": {"renewTime": "2020-01-01T00:00:00.123456Z"}})


@scenario
async def test_disruption_budgets_are_stored_as_written(api: Api) -> None:
    budgets = api.at("poddisruptionbudgets")
    selector = {"matchLabels": {"app": "x"}}
    await api.post(budgets, named("one", spec={"minAvailable": 1, "selector": selector}))
    await api.post(budgets, named("part", spec={"maxUnavailable": "50%", "selector": selector}))
    await api.patch(f"{api.at('poddisruptionbudgets', 'one')}/status", {"status": {"x": 1}})
    status = {"status": {"disruptionsAllowed": 1, "currentHealthy": 2}}
    await api.patch(f"{api.at('poddisruptionbudgets', 'one')}/status", status)


@scenario
async def test_events_are_served_by_two_groups(api: Api) -> None:
    modern = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    about = {"kind": "Pod", "namespace": api.namespace, "name": "p", "apiVersion": "v1", "uid": "u"}
    old = {
        **named("old", involvedObject=about, reason="Tested", message="hello", type="Normal"),
        "source": {"component": "me", "host": "h"},
        "firstTimestamp": "2020-01-01T00:00:00Z",
        "lastTimestamp": "2020-01-01T00:01:00Z",
        "count": 3,
    }
    new = {
        **named("new", regarding=about, reason="Tested", note="hello", type="Warning"),
        "eventTime": EVENT_SERIES,
        "reportingController": "example.com/me",
        "reportingInstance": "me-1",
        "action": "Acting",
    }
    await api.post(api.at("events"), old)
    await api.post(modern, new)
    for path in (api.at("events"), modern):
        await api.get(f"{path}/old")
        await api.get(f"{path}/new")
    await api.get(f"{api.at('events')}?fieldSelector=reason=Tested,type=Warning")
    await api.get(f"{api.at('events')}?fieldSelector=involvedObject.name=p,type=Normal")
    await api.post(modern, named("bad", regarding=about, reason="Tested"))
    older = {"deprecatedCount": 1, "deprecatedSource": {"component": "me"}}
    times = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp")
    older |= dict.fromkeys(times, "2020-01-01T00:00:00Z")
    await api.post(modern, {**new, **named("bad"), **older})
    elsewhere = {**about, "namespace": "elsewhere"}
    await api.post(api.at("events"), named("bad", involvedObject=elsewhere))
    series = {"series": {"count": 2, "lastObservedTime": EVENT_SERIES}}
    await api.patch(f"{modern}/new", series)


@scenario
async def test_access_rules_are_stored(api: Api) -> None:
    prefix = "/apis/rbac.authorization.k8s.io/v1"
    here, name = f"{prefix}/namespaces/{api.namespace}", f"x-{api.namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    await api.post(f"{here}/roles", named("one", rules=rules))
    await api.post(f"{here}/roles", named("bad", rules=[{"resources": ["pods"]}]))
    subjects = [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "sa"}]
    ref = {"kind": "Role", "name": "one"}
    await api.post(f"{here}/rolebindings", named("bad", roleRef=ref, subjects=subjects))
    subjects[1]["namespace"] = api.namespace
    await api.post(f"{here}/rolebindings", named("one", roleRef=ref, subjects=subjects))
    other = {"kind": "Role", "name": "two", "apiGroup": "rbac.authorization.k8s.io"}
    await api.patch(f"{here}/rolebindings/one", {"roleRef": other})
    await api.post(f"{prefix}/clusterroles", named(name, rules=rules))
    await api.post(
        f"{prefix}/clusterrolebindings",
        named(name, roleRef={"kind": "ClusterRole", "name": name}, subjects=subjects),
    )
    await api.post(f"{prefix}/clusterrolebindings", named("none"))
    await api.post(api.at("serviceaccounts"), named("sa", imagePullSecrets=[{"name": "pull"}]))
