"""Lists: paging over one snapshot, versions, selectors, and the other shapes of an answer."""

from __future__ import annotations

from urllib.parse import quote

from tests.conformance.samples import GROUP, config_map, gadget, pod
from tests.conformance.script import Answer, Api, scenario

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def following(page: Answer) -> str:
    return quote(str(page["metadata"]["continue"]), safe="")


@scenario
async def test_pages_are_of_one_snapshot(api: Api) -> None:
    gadgets = api.at("gadgets")
    for name in ("a", "b", "c", "d", "e"):
        await api.post(gadgets, gadget(name))
    page = await api.get(f"{gadgets}?limit=2")
    await api.post(gadgets, gadget("bb"))
    await api.patch(f"{gadgets}/d", {"spec": {"size": 9}})
    await api.delete(f"{gadgets}/e")
    page = await api.get(f"{gadgets}?limit=2&continue={following(page)}")
    await api.get(f"{gadgets}?limit=2&continue={following(page)}")
    await api.get(f"{gadgets}?continue={following(page)}")
    await api.get(f"{gadgets}?limit=9&continue={following(page)}&resourceVersion={page.version}")
    await api.get(f"{gadgets}?limit=5")
    await api.get(f"{gadgets}?limit=6")
    await api.get(f"{gadgets}?limit=0")


@scenario
async def test_pages_with_a_selector_do_not_count_the_rest(api: Api) -> None:
    maps = api.at("configmaps")
    for number in range(5):
        await api.post(maps, config_map(f"m{number}", labels={"even": str(number % 2 == 0)}))
    page = await api.get(f"{maps}?limit=2&labelSelector=even%3DTrue")
    await api.get(f"{maps}?limit=2&labelSelector=even%3DTrue&continue={following(page)}")
    await api.get(f"{maps}?limit=1&fieldSelector=metadata.name%3Dm3")


@scenario
async def test_bad_continue_tokens_are_refused(api: Api) -> None:
    for path in (api.at("configmaps"), api.at("gadgets")):
        for query in (
            "continue=abc",
            "continue=abc&limit=1",
            "continue=e30&limit=1",
            "continue=abc&resourceVersion=5",
            "limit=x",
            "limit=-1",
            "limit=99999999999999999999",
        ):
            await api.get(f"{path}?{query}")


@scenario
async def test_versions_of_lists_select_a_snapshot(api: Api) -> None:
    gadgets = api.at("gadgets")
    await api.post(gadgets, gadget("one"))
    before = await api.get(gadgets)
    await api.post(gadgets, gadget("two"))
    then = before.version
    for query in (
        f"resourceVersion={then}&resourceVersionMatch=Exact",
        f"resourceVersion={then}&resourceVersionMatch=Exact&limit=1",
        f"resourceVersion={then}&resourceVersionMatch=NotOlderThan",
        f"resourceVersion={then}",
        "resourceVersion=0",
        "resourceVersion=0&limit=1",
        "resourceVersion=0&resourceVersionMatch=NotOlderThan",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact",
        "resourceVersion=1&resourceVersionMatch=Sometimes",
        "resourceVersion=abc",
        "resourceVersion=abc&resourceVersionMatch=Exact",
        "resourceVersion=-1",
        "resourceVersion=99999999&resourceVersionMatch=Exact",
    ):
        await api.get(f"{gadgets}?{query}")
    await api.get(f"{gadgets}/two?resourceVersion={then}")
    await api.get(f"{gadgets}/two?resourceVersion=0")
    await api.get(f"{gadgets}/two?resourceVersion=abc")


@scenario
async def test_label_selectors_select_objects(api: Api) -> None:
    maps = api.at("configmaps")
    for name, labels in (
        ("none", {}),
        ("prod", {"env": "prod", "tier": "1"}),
        ("test", {"env": "test", "tier": "2"}),
        ("empty", {"env": "", "example.com/x": "y"}),
    ):
        await api.post(maps, config_map(name, labels=labels))
    for selector in (
        "env=prod",
        "env==prod",
        "env!=prod",
        "env",
        "!env",
        "env in (prod,test)",
        "env in (prod, test ),tier=1",
        "env notin (prod)",
        "env=",
        "env in ()",
        "env in (,prod)",
        "tier>1",
        "tier<2",
        "tier>x",
        "example.com/x=y",
        "env=prod,",
        ",",
        "",
        " env = prod ",
        "env===prod",
        "env in prod",
        "env in",
        "env in (prod",
        "=prod",
        "env prod",
        "en v=x",
        "env=pr*d",
        "-env=x",
        "env=" + "x" * 64,
        "a/b/c=x",
        "!env=prod",
        "env = prod tier = 1",
        "in in (in)",
    ):
        await api.get(f"{maps}?labelSelector={quote(selector)}")
    await api.get(f"{api.at('gadgets')}?labelSelector={quote('env in')}")


@scenario
async def test_field_selectors_select_objects(api: Api) -> None:
    ns = api.namespace
    await api.post(api.at("pods"), pod("one", node="n-1"))
    await api.post(api.at("pods"), pod("two"))
    await api.post(api.at("gadgets"), gadget("one"))
    await api.post(api.at("gadgets"), gadget("two", {"size": 5, "mode": "none"}))
    await api.post(api.at("secrets"), {"metadata": {"name": "one"}, "type": "x.y/z"})
    for resource, selectors in {
        "pods": (
            "metadata.name=one",
            "metadata.name!=one",
            "metadata.name==one",
            "spec.nodeName=n-1",
            "spec.nodeName=",
            "spec.nodeName!=",
            "status.phase=Pending",
            "status.phase!=Pending",
            "spec.restartPolicy=Always",
            "spec.nope=x",
            f"metadata.namespace={ns},metadata.name=one",
            "metadata.namespace=elsewhere",
            "metadata.name",
            "metadata.name=",
            "metadata.name=one\\,two",
            "status.podIP=",
            "spec.schedulerName=default-scheduler",
            "spec.hostNetwork=false",
            "spec.serviceAccountName=",
        ),
        "gadgets": (
            "metadata.name=one",
            f"metadata.namespace={ns}",
            "spec.mode=none",
            "spec.mode!=none",
            "spec.size=5",
            "spec.size=5,spec.mode=none",
            "spec.name=x",
            "metadata.labels=x",
        ),
        "secrets": ("type=x.y/z", "type!=x.y/z", "data=x"),
        "configmaps": ("metadata.name=x", "data.a=1"),
        "services": ("spec.type=ClusterIP", "spec.clusterIP=None"),
        "leases": ("metadata.name=x", "spec.holderIdentity=x"),
        "deployments": ("metadata.name=x", "status.replicas=1"),
        "events": ("reason=x", "involvedObject.kind=Pod", "source=x", "nope=x"),
        "serviceaccounts": ("metadata.name=default",),
    }.items():
        for selector in selectors:
            await api.get(f"{api.at(resource)}?fieldSelector={quote(selector)}")
    await api.get(f"/api/v1/namespaces?fieldSelector=metadata.name%3D{ns}")
    await api.get(f"/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3D{ns}")
    await api.get("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue")


@scenario
async def test_list_over_all_namespaces_has_objects_of_each(api: Api) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": f"{api.namespace}-b"}})
    label = {"only": api.namespace}
    for ns in (f"{api.namespace}-b", api.namespace):
        await api.post(api.at("gadgets", ns=ns), gadget("one", labels=label))
        await api.post(api.at("configmaps", ns=ns), config_map("one", labels=label))
    query = f"labelSelector=only%3D{api.namespace}"
    await api.get(f"/apis/{GROUP}/v1/gadgets?{query}")
    await api.get(f"/api/v1/configmaps?{query}")
    page = await api.get(f"/apis/{GROUP}/v1/gadgets?{query}&limit=1")
    await api.get(f"/apis/{GROUP}/v1/gadgets?{query}&limit=1&continue={following(page)}")
    await api.send("GET", f"/apis/{GROUP}/v1/gadgets?{query}", accept=TABLE)


@scenario
async def test_lists_are_ordered_by_name(api: Api) -> None:
    for name in ("b", "a-b", "a", "a.b", "a1", "aa", "10", "9"):
        await api.post(api.at("configmaps"), config_map(name, {}))
    await api.get(api.at("configmaps"))
    await api.get(f"{api.at('configmaps')}?limit=3")


@scenario
async def test_metadata_only_answers_have_no_spec(api: Api) -> None:
    for resource, body in (("configmaps", config_map("one")), ("gadgets", gadget("one"))):
        path = api.at(resource)
        await api.post(path, body)
        await api.send("GET", f"{path}/one", accept=PARTIAL)
        await api.send("GET", path, accept=PARTIAL_LIST)
        await api.send("GET", f"{path}?limit=1", accept=PARTIAL_LIST)
        await api.send("GET", path, accept=PARTIAL)
        await api.send("GET", f"{path}/one", accept=PARTIAL_LIST)
        await api.send("GET", f"{path}/nope", accept=PARTIAL)
        await api.send("GET", f"{path}/one", accept=f"{PARTIAL},application/json")
        await api.send("POST", f"{path}?dryRun=All", {**body, "metadata": {"name": "two"}})


@scenario
async def test_accept_headers_choose_the_format(api: Api) -> None:
    for resource, body in (("configmaps", config_map("one")), ("gadgets", gadget("one"))):
        await api.post(api.at(resource), body)
        one = api.at(resource, "one")
        for accept in (
            "application/json",
            "*/*",
            "application/*",
            "",
            "text/html",
            "text/html, */*;q=0.8",
            "application/json;q=0.5",
            "application/vnd.kubernetes.protobuf;q=0.9,application/json",
            "application/json;as=Table;v=v1;g=wrong.k8s.io",
            "application/json;as=Table;v=v9;g=meta.k8s.io",
            "application/json;as=Nothing;v=v1;g=meta.k8s.io",
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            "application/json;as=Nothing;v=v1;g=meta.k8s.io,application/json",
            "application/json;stream=watch",
            "application/json;pretty=1",
            "garbage",
        ):
            await api.send("GET", one, accept=accept)
    await api.send("GET", api.at("gadgets", "one"), accept="application/yaml")
    await api.send("GET", api.at("configmaps", "one"), accept="application/yaml")
    await api.get(f"{api.at('configmaps', 'one')}?pretty=true")
    await api.send("POST", api.at("configmaps"), b"x", content_type="text/plain")
    await api.send("POST", api.at("gadgets"), b"x", content_type="text/plain")
