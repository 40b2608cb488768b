"""VirtualMachineInstances on both servers: admitted by webhooks there, in process here.

`cobalt virt-api` runs with the account of its chart beside the real server, whose audit log shows
what it asks for.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme
from tests.conformance.charts import NAMESPACE, rendered
from tests.conformance.permitted import Cluster, Grant, granted, of_account, permitted
from tests.conformance.prepare import call, install_definitions
from tests.conformance.real import Server, StartError, free_port, process
from tests.conformance.script import Api, Pair, scenario
from tests.conformance.targets import COBALT, SUBJECT, client_of, embedded_server
from tests.conformance.virt_grants import OF_CONSOLES
from tests.conformance.wire import Body, Json

from hypercobalt.api.kubevirt import definition

pytestmark = [
    pytest.mark.timeout(180),  # Go compiles its standard library the first time
    pytest.mark.skipif(SUBJECT == "real", reason="a real server does not admit in process"),
]

CHART = "hypercobalt-virt"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATOR = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/virt-api-mutator"
UUID = "5d307ca9-b3ef-428c-8861-06e72d69f223"
DEADLINE = 60.0
HIDDEN: set[Grant] = {
    ("create", "authentication.k8s.io", "tokenreviews", ""),
    ("create", "authorization.k8s.io", "subjectaccessreviews", ""),
}
"""Used when somebody reads `/metrics` only."""


def instances(space: str, name: str = "") -> str:
    path = f"/apis/kubevirt.io/v1/namespaces/{space}/virtualmachineinstances"
    return f"{path}/{name}" if name else path


def vmi(name: str = "one", memory: Json = "128Mi", **metadata: Json) -> Body:
    domain = {"devices": {}, "memory": {"guest": memory}, "firmware": {"uuid": UUID}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, **metadata},
        "spec": {"domain": domain},
    }


def actor(name: str) -> Sequence[tuple[str, str]]:
    """Headers of impersonation of one of KubeVirt's accounts, with every right."""
    user = ("User", f"system:serviceaccount:{NAMESPACE}:{name}")
    return (user, ("Group", "system:masters"))


@pytest.fixture(scope="module")
def objects() -> list[Body]:
    """The chart's objects, with webhooks at a port of this machine."""
    made = of_account(rendered(CHART), "kubevirt-apiserver")
    port = free_port()
    for body in made:
        for webhook in body.get("webhooks", ()):
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
    return made


def port_of(objects: list[Body]) -> str:
    (url,) = {
        webhook["clientConfig"]["url"].rpartition("/")[0]
        for body in objects
        for webhook in body.get("webhooks", ())
    }
    return str(url.rpartition(":")[2])


def certificate(directory: Path) -> Path:
    authority = trustme.CA()
    served = authority.issue_cert("127.0.0.1")
    directory.mkdir()
    authority.cert_pem.write_to_path(str(directory / "ca.crt"))
    served.private_key_pem.write_to_path(str(directory / "tls.key"))
    (directory / "tls.crt").write_bytes(b"".join(it.bytes() for it in served.cert_chain_pems))
    return directory


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, objects: list[Body]) -> Iterator[Cluster]:
    """The real server with virt-api, whose webhooks are in force."""
    folder = tmp_path_factory.mktemp("real")
    with permitted(folder, objects, set()) as made:
        install_definitions(made.server, [definition.manifest()])
        command = [
            *(str(COBALT), "virt-api", "--kubeconfig", str(made.kubeconfig)),
            *("--bind-address", f"127.0.0.1:{port_of(objects)}", "--virt-namespace", NAMESPACE),
            *("--certificate-path", str(certificate(folder / "webhook"))),
            *("--health-probe-bind-address", "0", "--zap-encoder=json"),
        ]
        log = folder / "virt-api.log"
        with process(command, log) as child:
            wait_in_force(made.server, child, log)
            yield made


def wait_in_force(
    server: Server, child: subprocess.Popen[bytes] | None = None, log: Path | None = None
) -> None:
    """Wait until a create is answered by virt-api."""
    path, deadline = f"{instances('default')}?dryRun=All", time.monotonic() + DEADLINE
    while True:
        try:
            if "finalizers" in call(server, "POST", path, vmi())["metadata"]:
                return
        except RuntimeError as error:
            last = str(error)
        else:
            last = "the webhooks are not called"
        if time.monotonic() > deadline or (child is not None and child.poll() is not None):
            tail = log.read_text()[-2000:] if log is not None else ""
            raise StartError(f"no webhook is in force: {last}\n{tail}")
        time.sleep(0.1)


@pytest.fixture(scope="module")
def both(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Server]]:
    flags = ("--virt", f"--virt-namespace={NAMESPACE}")
    with ExitStack() as stack:
        ours = stack.enter_context(embedded_server(tmp_path_factory.mktemp("ours"), *flags))
        yield cluster.server, ours


@pytest.fixture
async def pair(both: tuple[Server, Server], pytestconfig: pytest.Config) -> AsyncIterator[Pair]:
    """In place of the suite's own pair, which knows no instances."""
    transcripts = pytestconfig.getoption("transcripts")
    async with client_of(both[0]) as real, client_of(both[1]) as ours:
        yield Pair((both[0], real), (both[1], ours), transcripts)


@scenario
async def test_instance_is_defaulted_whoever_creates_it_how(api: Api) -> None:
    path = instances(api.namespace)
    await api.post(f"{path}?dryRun=All", vmi())
    await api.get(instances(api.namespace, "one"))
    await api.post(f"{path}?fieldManager=maker", vmi())
    await api.get(instances(api.namespace, "one"))
    await api.apply(instances(api.namespace, "two"), vmi("two"))
    await api.apply(instances(api.namespace, "two"), vmi("two"))
    generated = vmi()
    generated["metadata"] = {"generateName": "gen-"}
    await api.post(path, generated)


@scenario
async def test_fields_set_by_admission_have_no_owner(api: Api) -> None:
    one = instances(api.namespace, "one")
    await api.apply(one, vmi())
    other = vmi()
    other["spec"]["domain"] = {"machine": {"type": "q35"}, "devices": {}}
    await api.apply(one, other, "m2")


@scenario
async def test_instance_that_cannot_be_is_refused(api: Api) -> None:
    path = instances(api.namespace)
    machine = vmi()
    machine["spec"]["domain"]["machine"] = {"type": "none-such"}
    both_wrong = vmi(labels={"kubevirt.io/created-by": "me"})
    both_wrong["spec"]["domain"]["cpu"] = {"model": "host-model", "cores": -1}
    no_domain = vmi()
    no_domain["spec"] = {}
    for body in (machine, both_wrong, no_domain, vmi(memory="much"), vmi(memory="-1Gi")):
        await api.post(path, body)
        await api.apply(instances(api.namespace, "one"), body)
    await api.get(path)


@scenario
async def test_update_by_a_person_changes_neither_status_nor_spec(api: Api) -> None:
    one = instances(api.namespace, "one")
    await api.post(instances(api.namespace), vmi())
    await api.patch(one, {"status": {"phase": "Running"}})
    await api.patch(one, [{"op": "replace", "path": "/status/phase", "value": "Failed"}], "json")
    await api.patch(one, {"spec": {"domain": {"memory": {"guest": "256Mi"}}}})
    await api.patch(one, {"metadata": {"labels": {"kubevirt.io/nodeName": "a"}}})
    await api.patch(one, {"metadata": {"labels": {"mine": "a"}}})
    await api.patch(f"{one}?dryRun=All", {"metadata": {"labels": {"mine": "b"}}})
    held = await api.get(one)
    body = held.body | {"status": {"phase": "Succeeded"}}
    await api.put(one, body)
    await api.get(one)


@scenario
async def test_actors_write_the_status(api: Api) -> None:
    one = instances(api.namespace, "one")
    await api.post(instances(api.namespace), vmi())
    merge = "application/merge-patch+json"
    phase: Json = {"status": {"phase": "Scheduling"}}
    for name in ("kubevirt-controller", "kubevirt-stranger"):
        await api.send("PATCH", one, phase, content_type=merge, acting=actor(name))
        phase = {"status": {"phase": "Failed"}}
    await api.get(one)


@scenario
async def test_old_version_is_admitted_as_the_new_one(api: Api) -> None:
    old = instances(api.namespace).replace("/v1/", "/v1alpha3/")
    body = {**vmi(), "apiVersion": "kubevirt.io/v1alpha3"}
    await api.post(old, body)
    await api.get(instances(api.namespace, "one"))
    await api.patch(f"{old}/one", {"spec": {"domain": {"memory": {"guest": "1Gi"}}}})


@scenario
async def test_instance_that_is_deleted_waits_for_its_finalizer(api: Api) -> None:
    one = instances(api.namespace, "one")
    await api.post(instances(api.namespace), vmi())
    await api.delete(one)
    gone = [{"op": "remove", "path": "/metadata/finalizers"}]
    headers = {"content_type": "application/json-patch+json"}
    await api.send("PATCH", one, gone, acting=actor("kubevirt-controller"), **headers)
    await api.get(one)


def test_virt_api_needs_no_right_that_its_chart_lacks(
    cluster: Cluster, objects: list[Body]
) -> None:
    assert cluster.forbidden() == []
    assert cluster.used(objects) == granted(objects) - HIDDEN - OF_CONSOLES


def test_ca_that_is_taken_away_is_written_again(cluster: Cluster) -> None:
    held = call(cluster.server, "GET", MUTATOR)
    bundle = held["webhooks"][0]["clientConfig"].pop("caBundle")
    call(cluster.server, "PUT", MUTATOR, held)
    wait_in_force(cluster.server)
    now = call(cluster.server, "GET", MUTATOR)["webhooks"][0]["clientConfig"]["caBundle"]
    assert now == bundle


def test_webhook_that_is_away_refuses_with_its_name(cluster: Cluster) -> None:
    held = call(cluster.server, "GET", MUTATOR)
    url = held["webhooks"][0]["clientConfig"]["url"]
    held["webhooks"][0]["clientConfig"]["url"] = f"https://127.0.0.1:{free_port()}/"
    call(cluster.server, "PUT", MUTATOR, held)
    wanted = r'failed calling webhook \\?"virtualmachineinstances-mutator\.kubevirt\.io'
    try:
        with pytest.raises(RuntimeError, match=wanted):
            create_until_refused(cluster.server)
    finally:
        held = call(cluster.server, "GET", MUTATOR)
        held["webhooks"][0]["clientConfig"]["url"] = url
        call(cluster.server, "PUT", MUTATOR, held)
        wait_in_force(cluster.server)


def create_until_refused(server: Server) -> None:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        call(server, "POST", f"{instances('default')}?dryRun=All", vmi())
        time.sleep(0.1)
