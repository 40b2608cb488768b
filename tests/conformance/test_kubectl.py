"""The stock kubectl on both servers: what a person types and what a person then sees."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import yaml
from tests.conformance.samples import GROUP, config_map, gadget, pod, workload
from tests.conformance.script import Api, scenario
from tests.conformance.targets import KUBECTL
from tests.conformance.wire import Json

DEADLINE_SECONDS = 30
AGE = re.compile(r"(?<=\s)(\d+s|\d+m(\d+s)?|<invalid>|<unknown>)(?=\s|$)", re.MULTILINE)
GAPS = re.compile(r" {2,}")
ADDRESS = re.compile(r"https://127\.0\.0\.1:\d+")
DISCOVERED_AFTER = re.compile(r"^[EWI]\d{4} .*$\n?", re.MULTILINE)  # client-side log lines

READY = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'


async def kubectl(
    api: Api,
    *arguments: str,
    stdin: Json = None,
    quiet: bool = False,
    begun: asyncio.Event | None = None,
) -> str:
    """Run kubectl in the scenario's namespace and record exit code, output and errors.

    `begun` is set when the watch shows: by the first line of output, with `-v=6` by the line of its
    request on stderr.
    """
    home = api.server.kubeconfig.parent / "kubectl"
    text = None if stdin is None else stdin if isinstance(stdin, bytes) else documents(stdin)
    child = await asyncio.create_subprocess_exec(
        *(str(KUBECTL), "--kubeconfig", str(api.server.kubeconfig), "--cache-dir", str(home)),
        *("--namespace", api.namespace, *arguments),
        stdin=asyncio.subprocess.PIPE if text is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBE_EDITOR": "true", "HOME": str(home)},
    )
    first, logged = b"", b""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            if begun is not None:
                assert child.stdout is not None
                assert child.stderr is not None
                if "-v=6" in arguments:
                    async for line in child.stderr:
                        logged += line
                        if b"watch=true" in line:
                            break
                else:
                    first = await child.stdout.readline()
                begun.set()
            out, err = await child.communicate(text)
    except TimeoutError:
        child.kill()
        out, err = await child.communicate()
        err += b"(killed: it took too long)"
    out, err = first + out, logged + err
    if not quiet:
        seen = [child.returncode, plain(out.decode()), plain(err.decode())]
        api.record(f"kubectl {' '.join(arguments)}", seen)
    return out.decode()


def plain(output: str) -> Json:
    """Return the lines of `output` without ages, alignment and addresses; or its JSON."""
    if output.startswith("{"):
        return yaml.safe_load(output)
    output = ADDRESS.sub("https://SERVER", DISCOVERED_AFTER.sub("", output))
    return [GAPS.sub("  ", AGE.sub("<age>", line)).rstrip() for line in output.splitlines()]


def documents(*objects: Json) -> bytes:
    bodies = objects[0] if isinstance(objects[0], list) else objects
    return "---\n".join(yaml.safe_dump(body) for body in bodies).encode()


@scenario
async def test_kubectl_prints_objects_in_every_form(api: Api) -> None:
    zone = {"topology.kubernetes.io/zone": "z-1", "only": api.namespace}
    await kubectl(api, "create", "-f", "-", stdin=[gadget("one", labels=zone), gadget("two")])
    for arguments in (
        "get gadgets",
        "get gg",
        "get gadget one",
        "get gadgets one two",
        "get gadgets -o wide",
        "get gadgets --show-labels",
        "get gadgets -o name",
        "get gadgets -o yaml",
        "get gadget one -o json",
        "get gadgets -o jsonpath={.items[*].spec.size}",
        "get gadgets -o custom-columns=N:.metadata.name,S:.spec.size",
        "get gadgets -l topology.kubernetes.io/zone=z-1",
        "get gadgets --field-selector metadata.name=two",
        "get gadgets --field-selector spec.mode=auto",
        "get gadgets --field-selector spec.nope=auto",
        "get gadgets -l a=b",
        "get gadgets --sort-by .spec.size",
        "get gadgets --chunk-size 1",
        "get gadgets nope",
        "get nopes",
        f"get gadgets.{GROUP}",
        f"get gadgets.v1.{GROUP}",
        "get conformance",
        "get gadgets,configmaps",
        "get gadgets/one configmaps/nope",
        "get --raw /readyz",
    ):
        await kubectl(api, *arguments.split())
    await kubectl(
        api, "get", "gadgets", "-A", "-l", "topology.kubernetes.io/zone=z-1", "-o", "name"
    )


@scenario
async def test_kubectl_prints_built_in_kinds(api: Api) -> None:
    objects = [config_map("one"), pod("one", node="n-1"), workload("Deployment", "one")]
    await kubectl(api, "create", "-f", "-", stdin=objects)
    for kind in (
        "configmap",
        "pod",
        "deployment",
        "all",
        "secrets",
        "sa",
        "svc",
        "ds",
        "pdb",
        "lease",
    ):
        await kubectl(api, "get", kind)
        await kubectl(api, "get", kind, "-o", "wide")
    await kubectl(api, "create", "configmap", "two", "--from-literal=a=b")
    await kubectl(api, "create", "secret", "generic", "two", "--from-literal=a=b")
    await kubectl(api, "create", "namespace", api.namespace)
    await kubectl(api, "create", "serviceaccount", "robot")
    await kubectl(api, "create", "deployment", "two", "--image=nginx", "--replicas=2")
    await kubectl(api, "create", "role", "r", "--verb=get", "--resource=pods")
    await kubectl(api, "create", "rolebinding", "rb", "--role=r", "--user=bob")
    budget = ["--min-available=1", "--selector=app=x"]
    await kubectl(api, "create", "poddisruptionbudget", "b", *budget)
    await kubectl(api, "get", "deploy,secret,role,rolebinding,pdb,sa")
    await kubectl(api, "get", "namespace", api.namespace)
    await kubectl(api, "set", "image", "deployment/two", "nginx=nginx:2")
    await kubectl(api, "delete", "deployment", "one", "two")
    await kubectl(api, "delete", "pod", "one", "--grace-period=0", "--force")


@scenario
async def test_kubectl_applies_on_the_client(api: Api) -> None:
    await kubectl(api, "apply", "-f", "-", stdin=[gadget("one"), config_map("one", {"a": "1"})])
    await kubectl(api, "apply", "-f", "-", stdin=[gadget("one"), config_map("one", {"a": "1"})])
    changed = [gadget("one", {"size": 5}), config_map("one", {"b": "2"})]
    await kubectl(api, "diff", "-f", "-", stdin=changed, quiet=True)
    await kubectl(api, "apply", "-f", "-", "--dry-run=server", stdin=changed)
    await kubectl(api, "apply", "-f", "-", "--dry-run=client", stdin=changed)
    await kubectl(api, "apply", "-f", "-", stdin=changed)
    await kubectl(api, "get", "gadget,configmap", "one", "-o", "yaml", "--show-managed-fields")
    await kubectl(api, "apply", "view-last-applied", "gadget/one")
    await kubectl(api, "apply", "-f", "-", stdin=gadget("one", {"size": 11}))
    await kubectl(api, "apply", "-f", "-", stdin=gadget("one", {"size": 3, "odd": 1}))
    await kubectl(
        api, "apply", "-f", "-", "--validate=warn", stdin=gadget("x", {"size": 3, "o": 1})
    )
    await kubectl(api, "apply", "-f", "-", stdin={**gadget("x"), "kind": "Unheard"})
    await kubectl(api, "apply", "-f", "-", stdin=workload("Deployment", "one"))
    deployment = workload("Deployment", "one")
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    await kubectl(api, "apply", "-f", "-", stdin=deployment)
    await kubectl(api, "get", "deployment", "one", "-o", "yaml", "--show-managed-fields")
    await kubectl(api, "replace", "-f", "-", stdin=config_map("one", {"c": "3"}))
    await kubectl(api, "delete", "-f", "-", stdin=[gadget("one"), config_map("one")])


@scenario
async def test_kubectl_applies_on_the_server(api: Api) -> None:
    server = ("apply", "--server-side", "-f", "-")
    await kubectl(api, *server, stdin=gadget("one"))
    await kubectl(api, *server, "--field-manager=other", stdin=gadget("one", {"size": 4}))
    other = ("--field-manager=other", "--force-conflicts")
    await kubectl(api, *server, *other, stdin=gadget("one", {"size": 4}))
    await kubectl(api, *server, "--dry-run=server", stdin=gadget("one", {"size": 4, "on": True}))
    await kubectl(
        api, *server, "-o", "yaml", "--show-managed-fields", stdin=gadget("one", {"size": 4})
    )
    await kubectl(api, "apply", "-f", "-", stdin=config_map("one", {"a": "1"}))
    await kubectl(api, *server, stdin=config_map("one", {"b": "1"}))
    await kubectl(api, "get", "configmap", "one", "-o", "yaml", "--show-managed-fields")


@scenario
async def test_kubectl_changes_one_object(api: Api) -> None:
    await kubectl(api, "create", "-f", "-", stdin=[gadget("one"), config_map("one", {"a": "1"})])
    for arguments in (
        ["label", "gadget", "one", "colour=red"],
        ["label", "gadget", "one", "colour=blue"],
        ["label", "gadget", "one", "colour=blue", "--overwrite"],
        ["label", "gadget", "one", "colour-"],
        ["label", "gadget", "one", "bad=-"],
        ["annotate", "gadget", "one", "note=hello there"],
        ["annotate", "configmap", "--all", "note=all"],
        ["patch", "gadget", "one", "--type=merge", "-p", '{"spec":{"size":4}}'],
        ["patch", "gadget", "one", "-p", '{"spec":{"size":4}}'],
        ["patch", "gadget", "one", "--type=json", "-p", '[{"op":"remove","path":"/spec/x"}]'],
        ["patch", "configmap", "one", "-p", '{"data":{"b":"2"}}'],
        ["patch", "gadget", "one", "--type=merge", "-p", '{"spec":{"size":99}}'],
        ["patch", "gadget", "one", "--subresource=status", "--type=merge", "-p", READY],
        ["wait", "gadget/one", "--for=condition=Ready", "--timeout=5s"],
        ["wait", "gadget/one", "--for=condition=Ready=false", "--timeout=1s"],
        ["wait", "gadget/one", "--for=jsonpath={.spec.size}=4", "--timeout=5s"],
        ["edit", "gadget", "one"],
        ["get", "gadget", "one", "-o", "yaml"],
        ["describe", "configmap", "one"],
        ["delete", "gadget", "one", "--dry-run=server"],
        ["delete", "gadget", "one", "--wait=false"],
        ["delete", "gadget", "one"],
        ["delete", "gadget", "one", "--ignore-not-found"],
        ["delete", "configmap", "--all", "--cascade=orphan", "--dry-run=server"],
        ["delete", "configmap", "one", "--cascade=foreground", "--wait=false"],
        ["wait", "gadget/one", "--for=delete", "--timeout=2s"],
    ):
        await kubectl(api, *arguments)


@scenario
async def test_kubectl_watches_and_waits(api: Api) -> None:
    await kubectl(api, "create", "-f", "-", stdin=[gadget("one")])
    follow = ("get", "gadgets", "--watch", "--output-watch-events", "--request-timeout=3s")
    watch = asyncio.create_task(kubectl(api, *follow, begun=(begun := asyncio.Event())))
    await begun.wait()
    await api.request("POST", api.at("gadgets"), gadget("two"))
    await api.request("DELETE", api.at("gadgets", "one"))
    await watch
    until = ("wait", "gadget/two", "--for=delete", "--timeout=10s", "-v=6")
    wait = asyncio.create_task(kubectl(api, *until, begun=(begun := asyncio.Event())))
    await begun.wait()
    await api.request("DELETE", api.at("gadgets", "two"))
    await wait


@scenario
async def test_kubectl_explains_kinds(api: Api) -> None:
    for arguments in (
        "explain gadget",
        "explain gadget.spec",
        "explain gadget.spec.parts.zone",
        "explain gadget.spec.nope",
        "explain gadget.status --recursive",
        "explain hypervisor.spec",
        "explain hypervisor.spec.maintenance",
        "explain pod.spec.containers.image",
        "explain deployment.spec.strategy",
        "explain lease --recursive",
        "explain nopes",
    ):
        await kubectl(api, *arguments.split())


@scenario
async def test_kubectl_lists_kinds_and_rights(api: Api) -> None:
    for group in (GROUP, "kvm.cloud.sap", "apps", "coordination.k8s.io"):
        lines = (await kubectl(api, "api-resources", "--api-group", group, quiet=True)).splitlines()
        names = ("gadgets", "trinkets", "hypervisors", "evictions", "deployments", "leases")
        kept = [GAPS.sub("  ", line) for line in lines if line.split(" ", 1)[0] in names]
        api.record(f"api-resources {group}", kept)
    versions = (await kubectl(api, "api-versions", quiet=True)).splitlines()
    own = (GROUP, "kvm.cloud.sap", "ovs.c5c3.io")
    api.record("api-versions", [line for line in versions if line.startswith(own)])
    for arguments in (
        "auth can-i get pods",
        "auth can-i * *",
        "auth can-i get gadgets",
        "auth can-i get --subresource=status hypervisors",
        "auth can-i create unheards",
        "auth whoami -o yaml",
        "auth whoami -o yaml --as eve --as-group x --as-group y --as-uid 7",
        "auth whoami -o yaml --as system:serviceaccount:space:robot",
    ):
        await kubectl(api, *arguments.split())


@scenario
async def test_a_kind_that_is_missing_is_named(api: Api) -> None:
    unknown = [
        {"apiVersion": "missing.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}},
        {"apiVersion": "v2", "kind": "Pod", "metadata": {"name": "p"}},
    ]
    for arguments in ("apply", "apply --server-side", "create", "create --dry-run=client"):
        await kubectl(api, *arguments.split(), "-f", "-", stdin=unknown)


@scenario
async def test_kubectl_lists_events(api: Api) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "reason": "Tested",
        "involvedObject": {"kind": "Gadget", "namespace": api.namespace, "name": "one"},
        "message": "hello",
        "type": "Warning",
        "source": {"component": "suite"},
        "count": 2,
        "firstTimestamp": "2020-01-01T00:00:00Z",
        "lastTimestamp": "2020-01-02T00:00:00Z",
    }
    await kubectl(api, "create", "-f", "-", stdin=event)
    await kubectl(api, "events")
    await kubectl(api, "events", "--for", "gadget/one", "--types=Warning")
    await kubectl(api, "get", "events")
    await kubectl(api, "get", "events", "--field-selector", "type=Normal")


def test_kubectl_is_installed() -> None:
    assert Path(KUBECTL).exists()
