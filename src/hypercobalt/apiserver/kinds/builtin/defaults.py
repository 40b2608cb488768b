"""Values that kube-apiserver fills in when a client leaves them out of a built-in kind.

Only what shows on one machine without kubelets; what its controllers do later is not imitated.

Source: kubernetes pkg/apis/*/v1/defaults.go.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.kinds.builtin import policies
from hypercobalt.apiserver.values import clone, object_at, objects_at

Change = Callable[[JSONObject], None]


def _pod_spec(spec: JSONObject) -> None:
    _set(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        terminationGracePeriodSeconds=30,
        securityContext={},
    )
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for group in ("containers", "initContainers"):
        for container in objects_at(spec, group):
            _container(container, host_network=spec.get("hostNetwork") is True)
    for volume in objects_at(spec, "volumes"):
        _volume(volume)


def _container(container: JSONObject, *, host_network: bool) -> None:
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    pinned = "@" in image or tag not in ("", "latest")
    _set(
        container,
        imagePullPolicy="IfNotPresent" if pinned else "Always",
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    for port in objects_at(container, "ports"):
        _set(port, protocol="TCP")
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort")
    for env in objects_at(container, "env"):
        field_ref = object_at(env, "valueFrom", "fieldRef")
        if field_ref:
            _set(field_ref, apiVersion="v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(found := container.get(probe), dict):
            _set(found, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
            if http := object_at(found, "httpGet"):
                _set(http, path="/", scheme="HTTP")
    resources = object_at(container, "resources")
    limits = object_at(resources, "limits")
    if limits:
        requests = dict(object_at(resources, "requests"))
        for name, amount in limits.items():
            requests.setdefault(name, amount)
        resources["requests"] = requests


def _volume(volume: JSONObject) -> None:
    if not [name for name in volume if name != "name"]:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "projected", "downwardAPI"):
        if isinstance(found := volume.get(source), dict):
            _set(found, defaultMode=420)
    if isinstance(found := volume.get("hostPath"), dict):
        _set(found, type="")


def _pod(obj: JSONObject) -> None:
    _pod_spec(object_at(obj, "spec"))
    spec = object_at(obj, "spec")
    _set(spec, enableServiceLinks=True)


def _template(obj: JSONObject) -> None:
    spec = object_at(obj, "spec", "template", "spec")
    _pod_spec(spec)


def _deployment(obj: JSONObject) -> None:
    spec = object_at(obj, "spec")
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy={})
    strategy = object_at(spec, "strategy")
    _set(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set(strategy, rollingUpdate={})
        _set(object_at(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    _template(obj)


def _daemon_set(obj: JSONObject) -> None:
    spec = object_at(obj, "spec")
    _set(spec, revisionHistoryLimit=10, updateStrategy={})
    strategy = object_at(spec, "updateStrategy")
    _set(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set(strategy, rollingUpdate={})
        _set(object_at(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    _template(obj)
    meta = object_at(obj, "metadata")
    annotations = dict(object_at(meta, "annotations"))
    annotations.setdefault("deprecated.daemonset.template.generation", "1")
    meta["annotations"] = annotations


def _service(obj: JSONObject) -> None:
    spec = object_at(obj, "spec")
    _set(spec, type="ClusterIP", sessionAffinity="None")
    for port in objects_at(spec, "ports"):
        _set(port, protocol="TCP", targetPort=port.get("port"))
    if spec["type"] != "ExternalName":
        _set(spec, internalTrafficPolicy="Cluster")
    if spec.get("clusterIP"):
        _set(spec, clusterIPs=[spec["clusterIP"]])
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _set(spec, externalTrafficPolicy="Cluster")


def _secret(obj: JSONObject) -> None:
    _set(obj, type="Opaque")
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict) and plain:
        data = dict(object_at(obj, "data"))
        for name, value in plain.items():
            data[name] = base64.b64encode(str(value).encode()).decode()
        obj["data"] = data


def _namespace(obj: JSONObject) -> None:
    meta = object_at(obj, "metadata")
    labels = dict(object_at(meta, "labels"))
    labels["kubernetes.io/metadata.name"] = meta.get("name")
    meta["labels"] = labels


def _node(obj: JSONObject) -> None:
    status = object_at(obj, "status")
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = status["capacity"]
    if cidr := object_at(obj, "spec").get("podCIDR"):
        _set(object_at(obj, "spec"), podCIDRs=[cidr])


def _rbac_binding(obj: JSONObject) -> None:
    group = "rbac.authorization.k8s.io"
    named = [s for s in objects_at(obj, "subjects") if s.get("kind") in ("User", "Group")]
    for ref in (object_at(obj, "roleRef"), *named):
        ref["apiGroup"] = ref.get("apiGroup") or group


DEFAULTS: dict[str, Change] = {
    "Pod": _pod,
    "Deployment": _deployment,
    "DaemonSet": _daemon_set,
    "Service": _service,
    "Secret": _secret,
    "Namespace": _namespace,
    "Node": _node,
    "RoleBinding": _rbac_binding,
    "ClusterRoleBinding": _rbac_binding,
    policies.POLICY: policies.default_policy,
    policies.BINDING: policies.default_binding,
}


def _set(target: JSONObject, **values: JSON) -> None:
    for name, value in values.items():
        if target.get(name) is None:
            target[name] = clone(value)
