"""Discovery, versions and OpenAPI documents."""

from __future__ import annotations

from tests.conformance.samples import GROUP
from tests.conformance.script import Answer, Api, scenario
from tests.conformance.wire import Json

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# what the embedded server serves of each built-in group; the real one serves more
SERVED = {
    "v1": "configmaps events namespaces nodes pods secrets serviceaccounts services",
    "apps/v1": "deployments daemonsets",
    "policy/v1": "poddisruptionbudgets",
    "coordination.k8s.io/v1": "leases",
    "events.k8s.io/v1": "events",
    "rbac.authorization.k8s.io/v1": "roles rolebindings clusterroles clusterrolebindings",
    "apiextensions.k8s.io/v1": "customresourcedefinitions",
    "authentication.k8s.io/v1": "selfsubjectreviews",
    "authorization.k8s.io/v1": "selfsubjectaccessreviews selfsubjectrulesreviews",
}
SUBRESOURCES = {"status", "finalize", "eviction"}
# hashes of the storage, which clients only compare with themselves
UNSTABLE = ("storageVersionHash",)


def kept(name: str, plurals: set[str]) -> bool:
    plural, _, subresource = name.partition("/")
    return plural in plurals and (not subresource or subresource in SUBRESOURCES)


@scenario
async def test_resources_of_each_served_group_are_listed(api: Api) -> None:
    for version, plurals in SERVED.items():
        path = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        answer = await api.request("GET", path)
        rows = [
            {key: value for key, value in row.items() if key not in UNSTABLE}
            for row in answer["resources"]
            if kept(row["name"], set(plurals.split()))
        ]
        head = {key: value for key, value in answer.body.items() if key != "resources"}
        api.record(f"GET {path}", [head, sorted(rows, key=lambda row: str(row["name"]))])


@scenario
async def test_resources_of_a_custom_group_are_listed(api: Api) -> None:
    def plain(answer: Answer) -> Json:
        rows = answer["resources"]
        return [{key: row[key] for key in row if key not in UNSTABLE} for row in rows]

    for version in ("v1", "v1beta1"):
        answer = await api.request("GET", f"/apis/{GROUP}/{version}")
        api.record(f"GET /apis/{GROUP}/{version}", sorted(plain(answer), key=str))
    await api.get(f"/apis/{GROUP}")
    await api.get("/apis/apps")
    await api.get(f"/apis/{GROUP}/v9")
    await api.get("/apis/no-such-group.example.com")


@scenario
async def test_aggregated_discovery_lists_each_group(api: Api) -> None:
    for root in ("/api", "/apis"):
        answer = await api.request("GET", root, accept=AGGREGATED)
        head = [answer.status, answer["kind"], answer["apiVersion"]]
        api.record(root, [*head, answer.headers["content-type"]])
        found = {
            f"{key} {row['resource']}": row
            for group in answer["items"]
            for version in group["versions"]
            for key in [f"{group['metadata'].get('name', '')}/{version['version']}".lstrip("/")]
            for row in version["resources"]
            if row["resource"] in SERVED.get(key, "").split() or key.startswith(GROUP)
        }
        for name, row in sorted(found.items()):
            rows = [it for it in row.get("subresources", []) if it["subresource"] in SUBRESOURCES]
            api.record(name, {**row, "subresources": rows})
    fallback = f"{AGGREGATED},application/json"
    answer = await api.request("GET", "/apis", accept=fallback)
    api.record("with a fallback", [answer["kind"], answer.headers["content-type"]])
    answer = await api.request("GET", "/apis")
    api.record("without", [answer["kind"], answer.headers["content-type"]])


@scenario
async def test_group_lists_name_each_group(api: Api) -> None:
    answer = await api.request("GET", "/api")
    api.record("GET /api", [answer["kind"], answer["versions"]])
    answer = await api.request("GET", "/apis")
    names = [f"{name.rpartition('/')[0]}" for name in SERVED if "/" in name]
    rows = [group for group in answer["groups"] if group["name"] in {*names, GROUP}]
    api.record("GET /apis", sorted(rows, key=lambda row: str(row["name"])))
    version = await api.request("GET", "/version")
    api.record("GET /version", [version["major"], version["minor"], version["gitVersion"]])
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await api.request("GET", path, token="")
        api.record(f"GET {path}", [answer.status, answer.body, answer.headers["content-type"]])


@scenario
async def test_openapi_of_a_custom_group_is_published(api: Api) -> None:
    document = await api.request("GET", f"/openapi/v3/apis/{GROUP}/v1")
    schemas = document["components"]["schemas"]
    for name in ("v1.Gadget", "v1.Trinket", "v1.GadgetList"):
        api.record(f"schema {name}", schemas.get(f"com.example.conformance.{name}"))
    index = await api.request("GET", "/openapi/v3")
    keys = [name for name in index["paths"] if GROUP in name]
    api.record("paths of the group", sorted(keys))


@scenario
async def test_openapi_of_built_in_kinds_is_published(api: Api) -> None:
    for path, names in (
        ("api/v1", ("io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.ConfigMap")),
        ("apis/apps/v1", ("io.k8s.api.apps.v1.Deployment", "io.k8s.api.apps.v1.DeploymentSpec")),
        ("apis/policy/v1", ("io.k8s.api.policy.v1.PodDisruptionBudget",)),
    ):
        document = await api.request("GET", f"/openapi/v3/{path}")
        for name in names:
            api.record(f"schema {name}", document["components"]["schemas"][name])
