"""virt-controller on the real server, with the account of its chart: what it asks for.

Scheduler, kubelet and handler are the test's, with an administrator's rights.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.charts import NAMESPACE, rendered
from tests.conformance.permitted import Cluster, Grant, granted, of_account, permitted
from tests.conformance.prepare import call, install_definitions
from tests.conformance.real import process
from tests.conformance.targets import COBALT, SUBJECT
from tests.conformance.wire import Body
from tests.integration.runtime.scripted import eventually
from tests.integration.virt.controller.world import DEADLINE, Handler, Kubelet, Lab, handed_over

from hypercobalt.api.coordination import Lease
from hypercobalt.api.core import Namespace
from hypercobalt.api.kubevirt import definition
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.runtime import Kube, load_connection

pytestmark = [
    pytest.mark.timeout(180),  # Go compiles its standard library the first time
    pytest.mark.skipif(SUBJECT == "real", reason="the subject of these tests is our controller"),
]

ACCOUNT, LEASE = "kubevirt-controller", "virt-controller"
HIDDEN: set[Grant] = {
    ("create", "authentication.k8s.io", "tokenreviews", ""),
    ("create", "authorization.k8s.io", "subjectaccessreviews", ""),
    # Asked of the authorizer by an admission plugin, and in no audit log.
    ("update", "kubevirt.io", "virtualmachineinstances/finalizers", ""),
    # Of a series of Events about one thing.
    ("update", "events.k8s.io", "events", ""),
}


@pytest.fixture(scope="module")
def objects() -> list[Body]:
    """The objects of the chart that are about virt-controller; the webhooks call no server here."""
    made = of_account(rendered("hypercobalt-virt"), ACCOUNT)
    return [body for body in made if "webhooks" not in body]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, objects: list[Body]) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("real")
    with permitted(folder, objects, set()) as made:
        install_definitions(made.server, [definition.manifest()])
        command = [
            *(str(COBALT), "virt-controller", "--kubeconfig", str(made.kubeconfig)),
            *("--virt-namespace", NAMESPACE, "--use-emulation", "--zap-encoder=json"),
            *("--health-probe-bind-address", "0"),
        ]
        with process(command, folder / "virt-controller.log"):
            yield made


async def test_controller_needs_no_right_that_its_chart_lacks(
    cluster: Cluster, objects: list[Body]
) -> None:
    connection = load_connection(cluster.server.kubeconfig)
    async with Kube(connection, field_manager="person") as kube:
        await kube.create(Namespace(metadata=ObjectMeta(name="people")))
        lab = Lab(kube, cluster.server.kubeconfig, "people")
        kubelet, handler = Kubelet(lab), Handler(lab)
        await lab.add()
        vmi = await handed_over(lab)
        (pod,) = await lab.pods()
        await handler.sets("Running")
        await lab.until_pod(lambda p: "True" in {c.status for c in p.status.conditions}, vmi)
        await lab.kube.delete(VirtualMachineInstance, "vm", lab.namespace)
        await lab.until_pod(lambda p: p.metadata.deletionTimestamp is not None, vmi)
        await handler.sets("Succeeded")
        await kubelet.ends(pod)
        await kubelet.removes(pod)
        await lab.gone()

        async def renewed() -> bool:
            lease = await kube.get(Lease, LEASE, NAMESPACE)
            return lease is not None and lease.spec.renewTime != lease.spec.acquireTime

        await eventually(renewed, seconds=DEADLINE)
    assert cluster.forbidden() == []
    assert cluster.used(objects) == granted(objects) - HIDDEN


@pytest.mark.parametrize(("name", "may"), [(LEASE, True), ("another", False)])
def test_controller_renews_the_lease_of_its_own_name_alone(
    cluster: Cluster, name: str, may: bool
) -> None:
    about = {
        "group": "coordination.k8s.io",
        "resource": "leases",
        "name": name,
        "verb": "patch",
        "namespace": NAMESPACE,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": cluster.user, "resourceAttributes": about},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert call(cluster.server, "POST", path, review)["status"].get("allowed", False) == may
