"""Certificates, on a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.operator.conftest import add_node, operator, until

from hypercobalt.api.certificate import Certificate
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLACE = "monsoon3"


async def test_certificate_is_made_and_put_right_after_edits_by_hand(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    mine = f"libvirt-{name}"
    async with operator(kubeconfig):
        await add_node(kube, name, addresses=("192.0.2.7",))
        made = await until(
            kube, Certificate, mine, lambda c: bool(c.spec.ipAddresses), namespace=PLACE
        )
        assert made.spec.ipAddresses == ("192.0.2.7",)
        await kube.merge_patch(Certificate, mine, {"spec": {"usages": ["cert sign"]}}, PLACE)
        await until(
            kube, Certificate, mine, lambda c: "server auth" in c.spec.usages, namespace=PLACE
        )
        await kube.delete(Certificate, mine, PLACE)
        again = await until(kube, Certificate, mine, lambda _: True, namespace=PLACE)
        assert again.metadata.uid != made.metadata.uid


async def test_certificate_of_the_node_agent_is_left_to_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    labels = {"app.kubernetes.io/managed-by": "hypercobalt-node-agent"}
    meta = ObjectMeta(name=f"libvirt-{name}", namespace=PLACE, labels=labels)
    made = await kube.create(Certificate(metadata=meta))
    other = f"{name}-b"
    async with operator(kubeconfig):
        await add_node(kube, name)
        await add_node(kube, other)  # passes come in order: this one's is the later
        await until(kube, Certificate, f"libvirt-{other}", lambda _: True, namespace=PLACE)
    found = await kube.get(Certificate, meta.name, PLACE)
    assert found is not None
    assert found.metadata.resourceVersion == made.metadata.resourceVersion
