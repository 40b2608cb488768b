"""The subresource `binding`: a scheduler assigns a pod to a node, once."""

from __future__ import annotations

from tests.conformance.samples import kubelet, pod
from tests.conformance.script import Api, scenario
from tests.conformance.wire import Body, Json


def bound(name: str, node: str = "node-a", **metadata: Json) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


async def bind(api: Api, name: str, body: Body, query: str = "") -> None:
    await api.post(f"{api.at('pods', name)}/binding{query}", body)


@scenario
async def test_pod_is_bound_once(api: Api) -> None:
    await api.post(api.at("pods"), pod("a"))
    await bind(api, "a", bound("a"), "?dryRun=All")
    await api.get(api.at("pods", "a"))
    await bind(api, "a", bound("a", annotations={"why": "free"}, labels={"app": "y", "z": "1"}))
    await api.get(api.at("pods", "a"))
    await bind(api, "a", bound("a", "node-b"))
    await bind(api, "a", bound("a"))
    await bind(api, "missing", bound("missing"))
    await api.patch(api.at("pods", "a"), {"metadata": {"labels": {"app": "z"}}})


@scenario
async def test_binding_moves_the_condition(api: Api) -> None:
    await api.post(api.at("pods"), pod("a"))
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"status": {"conditions": [waiting], "nominatedNodeName": "node-b"}}
    await api.request(
        "PATCH",
        f"{api.at('pods', 'a')}/status",
        status,
        content_type="application/merge-patch+json",
    )
    await bind(api, "a", {"metadata": {"name": "a"}, "target": {"name": "node-a"}})
    await api.get(api.at("pods", "a"))


@scenario
async def test_preconditions_of_a_binding(api: Api) -> None:
    made = await api.post(api.at("pods"), pod("a"))
    other = "00000000-0000-4000-8000-000000000000"
    await bind(api, "a", bound("a", uid=other))
    await bind(api, "a", bound("a", resourceVersion="1"))
    await bind(api, "a", bound("a", uid=made.uid, resourceVersion=made.version))


@scenario
async def test_pod_that_ends_or_is_gated_is_not_bound(api: Api) -> None:
    await api.post(api.at("pods"), pod("ending", "", finalizers=["example.com/held"]))
    await api.delete(api.at("pods", "ending"))
    await bind(api, "ending", bound("ending"))
    await api.patch(api.at("pods", "ending"), {"metadata": {"finalizers": None}})
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
    await api.request("POST", api.at("pods"), gated)
    await bind(api, "gated", bound("gated"))


@scenario
async def test_body_that_is_no_binding_of_the_pod_is_refused(api: Api) -> None:
    await api.post(api.at("pods"), pod("a"))
    for body in (
        bound("b"),
        bound("a", namespace="other"),
        bound("a", ""),
        {**bound("a"), "target": {"kind": "Pod", "name": "x"}},
        {**bound("a"), "kind": "Pod"},
        {**bound("a"), "target": []},
    ):
        await bind(api, "a", body)
    await api.send("GET", f"{api.at('pods', 'a')}/binding")
    await api.put(f"{api.at('pods', 'a')}/binding", bound("a"))


@scenario
async def test_kubelet_binds_no_pod(api: Api) -> None:
    await api.post(api.at("pods"), pod("a"))
    path = f"{api.at('pods', 'a')}/binding"
    await api.send("POST", path, bound("a"), acting=kubelet("node-a"))
