"""OVSNodes as a person may read them: in all namespaces, or in the kubeconfig's alone."""

from __future__ import annotations

from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.cli.api_command import there_are
from hypercobalt.errors import InvalidRequestError
from hypercobalt.runtime import ForbiddenError, Kube, NotFoundError


async def listed(kube: Kube, namespace: str, name: str = "") -> list[OVSNode]:
    """The OVSNodes of all namespaces; where that is forbidden, of one.

    Args:
        kube: the client of a person.
        namespace: of the kubeconfig's context.
        name: of the only one; "" for all.

    Raises:
        ForbiddenError: neither is allowed.
        InvalidRequestError: the API server does not have the type.
    """
    fields = f"metadata.name={name}" if name else ""
    try:
        try:
            return list((await kube.list(OVSNode, fields=fields)).items)
        except ForbiddenError as refused:
            try:
                return list((await kube.list(OVSNode, namespace, fields=fields)).items)
            except ForbiddenError:
                raise refused from None
    except NotFoundError as error:
        raise InvalidRequestError("this API server has no OVSNodes; check --kubeconfig") from error


async def of_host(kube: Kube, namespace: str, node: str) -> OVSNode:
    """The OVSNode of a host.

    Raises:
        InvalidRequestError: there is none, or there are several.
    """
    found = await listed(kube, namespace, node)
    if not found:
        known = there_are(one.metadata.name for one in await listed(kube, namespace))
        raise InvalidRequestError(f"there is no OVSNode {node}; {known}")
    if len(found) > 1:
        spaces = ", ".join(sorted(one.metadata.namespace for one in found))
        raise InvalidRequestError(f"OVSNode {node} is in several namespaces: {spaces}")
    return found[0]


async def of_chassis(kube: Kube, namespace: str, chassis: str) -> OVSNode:
    """The OVSNode of a host, by the name that OVN has for it.

    Raises:
        InvalidRequestError: no OVSNode reports this chassis, or several do: an agent can report
            that of another host.
    """
    found = [one for one in await listed(kube, namespace) if chassis and _chassis(one) == chassis]
    if not found:
        raise InvalidRequestError(f"no OVSNode reports the chassis {chassis}; check its OVS agent")
    if len(found) > 1:
        names = sorted(f"{one.metadata.namespace}/{one.metadata.name}" for one in found)
        raise InvalidRequestError(
            f"several OVSNodes report the chassis {chassis}: {', '.join(names)}; one of them is "
            "false: compare external_ids:system-id on these hosts"
        )
    return found[0]


def _chassis(node: OVSNode) -> str:
    ovn = node.status.ovnController
    return "" if ovn is None else ovn.chassisId or ""
