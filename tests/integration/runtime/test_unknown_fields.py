"""Fields that our types lack survive our writes, on the embedded server."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from hypercobalt.api.meta import Object, ObjectMeta, ResourceInfo, Struct
from hypercobalt.api.workloads import Container, Pod
from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.runtime import Kube, load_connection


class WholeContainer(Container, frozen=True):
    workingDir: str = ""


class WholePod(Object, frozen=True):
    """A pod of a client whose types have more fields than ours."""

    class Spec(Struct, frozen=True):
        containers: tuple[WholeContainer, ...] = ()

    resource: ClassVar[ResourceInfo] = Pod.resource

    spec: Spec = Spec()


def take_newer_images(pod: Pod) -> Pod:
    newer = (replace(each, image="2") for each in pod.spec.containers)
    return replace(pod, spec=replace(pod.spec, containers=tuple(newer)))


async def test_fields_of_list_items_survive_a_change_of_the_list(tmp_path: Path) -> None:
    given = tuple(WholeContainer(name=name, image="1", workingDir=f"/{name}") for name in "abc")
    meta = ObjectMeta(name="p", namespace="default")
    async with (
        serve(ServerOptions(tmp_path, port=0)) as server,
        Kube(load_connection(server.kubeconfig)) as kube,
    ):
        await kube.create(WholePod(metadata=meta, spec=WholePod.Spec(containers=given)))
        await kube.modify(Pod, "p", take_newer_images, "default")
        pod = await kube.get(WholePod, "p", "default")
    assert pod is not None
    found = [(c.name, c.image, c.workingDir) for c in pod.spec.containers]
    assert found == [("a", "2", "/a"), ("b", "2", "/b"), ("c", "2", "/c")]
