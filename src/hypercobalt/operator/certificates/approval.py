"""Approves the CertificateRequests of node agents: for the own host only, and denies all others.

cert-manager issues nothing that is not approved. It writes down who has made a request; the Node is
the one that the API server has put into the token of the agent's pod. So an agent gets a
certificate with its Node's name and with addresses that are its host's (`node_names`), and no other
host gets any. Whoever has stolen that token is not the host: the first approved key is recorded in
the host's Hypervisor, and no other is approved. A request that another approver has decided is left
as it is.

Source: cert-manager, "CertificateRequest", approval and user information.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.certificate import CertificateCondition, CertificateRequest
from hypercobalt.api.core import Node
from hypercobalt.api.duration import DurationError, parse_duration
from hypercobalt.api.holders import way_out
from hypercobalt.api.host_certificate import ANY_KEY, KEY, LIFETIME, USAGES
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.logs import get_logger
from hypercobalt.operator.certificates.pace import HostPace
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.shared.node_names import BY_CLAIM, Holder, NodeNames, names_of
from hypercobalt.runtime import Cache, Clock, Kube, Recorder, Result, split_key
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

NAME: Final = "certificate-approval"
APPROVER: Final = "kvm.cloud.sap"
"""Reason of this operator's conditions; cert-manager's own approver has `cert-manager.io`."""

BY_REQUESTER: Final = "requester"
"""Index of CertificateRequests by `requester_node`."""

_REFUSED: Final = (
    "A CertificateRequest for another key than this host's was denied: the host was "
    "reinstalled, or its agent's token is used elsewhere; see docs/host.md, A host keeps its key"
)
_NODE: Final = "authentication.kubernetes.io/node-name"


def requester_node(request: CertificateRequest) -> str:
    """Return the Node of the pod that made the request with its token; "" without one."""
    nodes = request.spec.extra.get(_NODE, ())
    return nodes[0] if len(nodes) == 1 else ""


def is_for(request: CertificateRequest, issuing: Issuing) -> bool:
    """Whether a request names the hosts' issuer."""
    issuer, wanted = request.spec.issuerRef, issuing.reference
    return issuer is not None and wanted == replace(
        issuer, kind=issuer.kind or "Issuer", group=issuer.group or "cert-manager.io"
    )


def refusal(
    request: CertificateRequest, own: NodeNames | None, agent_namespaces: Collection[str]
) -> str:
    """Return why a request must be denied; "" if it must be approved.

    Args:
        request: as read.
        own: names and addresses of the requester's Node; None if its token names none.
        agent_namespaces: where the agents' ServiceAccounts are.
    """
    spec, node = request.spec, requester_node(request)
    accounts = tuple(f"system:serviceaccount:{namespace}:" for namespace in agent_namespaces)
    if not spec.username.startswith(accounts):
        spaces = ", ".join(agent_namespaces)
        who = f"requester {spec.username[:64]!r}"
        return f"{who} is not a ServiceAccount in one of the namespaces {spaces}"
    if own is None:
        return "the requester's token names no Node; node agents use the token of their pod"
    if spec.isCA:
        return "the certificate would be a CA's"
    if set(spec.usages) != set(USAGES):
        return f"the usages are not {', '.join(USAGES)}"
    if not _is_short(spec.duration):
        return f"duration {spec.duration[:32]!r} is not within {LIFETIME.days} days"
    # Imported here: a site whose requests are all decided does not carry the library for them.
    from hypercobalt.api.signing_request import SigningRequestError, read  # noqa: PLC0415

    try:
        names = read(spec.request)
    except SigningRequestError as error:
        return f"spec.request: {error}"
    if names.name != node:
        return f"it names {names.name[:64]!r}, but the requester runs on Node {node}"
    if foreign := [address for address in names.addresses if address not in own.addresses]:
        address = foreign[0]
        if has := own.taken.get(address):
            return f"host {has} holds {address}, which Node {node} lists as well: {way_out(has)}"
        return f"{address} is not an address of Node {node}, or another Node has it too"
    return ""


def key_refusal(host: str, key: str, recorded: str) -> str:
    """Return why a key is not the host's; "" if it is.

    Args:
        host: name of the Node and the Hypervisor.
        key: digest of the requested key.
        recorded: value of the annotation `KEY`.
    """
    if recorded in (key, ANY_KEY):
        return ""
    return (
        f"its key {key} is not the one of {host}, {recorded[:64]}; if the host was reinstalled, "
        "compare the key on its machine (docs/host.md, A host keeps its key), and "
        f"`kubectl annotate hypervisor {host} {KEY}={key} --overwrite`"
    )


def with_key(hypervisor: Hypervisor, key: str) -> Hypervisor:
    """Return the Hypervisor with the key recorded, if it has no record."""
    meta = hypervisor.metadata
    if meta.annotations.get(KEY):
        return hypervisor
    return replace(hypervisor, metadata=replace(meta, annotations={**meta.annotations, KEY: key}))


def _is_short(duration: str) -> bool:
    """Whether a certificate lives no longer than agents request; cert-manager's default does."""
    try:
        return 0 < parse_duration(duration).total_seconds() <= LIFETIME.total_seconds()
    except DurationError:
        return False


def _key_digest(request: CertificateRequest) -> str:
    from hypercobalt.api.signing_request import key_digest  # noqa: PLC0415 - as in `refusal`

    return key_digest(request.spec.request)


class ApprovalReconciler:
    """The shell around `refusal`.

    Args:
        requests: those of node agents, with the index `BY_REQUESTER`.
        agent_namespaces: where the agents' ServiceAccounts are.
        hypervisors: newest state of the Hypervisors.
        events: records Events.
        holder: of an address.
    """

    def __init__(
        self,
        kube: Kube,
        nodes: Cache[Node],
        requests: WriteCache[CertificateRequest],
        issuing: Issuing,
        agent_namespaces: Collection[str],
        *,
        hypervisors: WriteCache[Hypervisor],
        events: Recorder,
        holder: Holder,
        clock: Clock,
    ) -> None:
        self._kube, self._clock = kube.as_manager(NAME), clock
        self._nodes, self._requests, self._hypervisors = nodes, requests, hypervisors
        self._issuing, self._agents, self._holder = issuing, agent_namespaces, holder
        self._events, self._pace = events, HostPace()

    async def reconcile(self, key: str, /) -> Result:
        namespace, name = split_key(key)
        request = self._requests.get(name, namespace or "")
        if request is None or not is_for(request, self._issuing) or _is_decided(request):
            self._pace.forget(key)
            return Result()
        node = requester_node(request)
        if node and self._nodes.get(node) is None:
            return Result()  # another shard's, or to be seen yet: then it wakes us
        if wait := self._pace.wait(node, key, request.metadata.uid, self._clock.monotonic()):
            return Result(wait)
        own = await self._names(node) if node else None
        if node and own is None:  # it has just gone
            return Result()
        why = refusal(request, own, self._agents) or await self._of_key(request, node)
        if why is not None:
            await self._decide(request, why)
        return Result()

    async def _of_key(self, request: CertificateRequest, host: str) -> str | None:
        """Return `key_refusal`, the first key recorded; None while the host has no Hypervisor."""
        key = _key_digest(request)
        async with self._hypervisors.turn(host):
            found = await self._kube.modify(Hypervisor, host, lambda it: with_key(it, key))
            if found is None:
                return None  # to be made: then it wakes us
            self._hypervisors.wrote(found)
        if why := key_refusal(host, key, found.metadata.annotations[KEY]):
            # The same text each time, so that any number of requests makes one Event.
            action = "ApprovingCertificate"
            self._events.record(found, "Warning", "CertificateKeyRefused", _REFUSED, action=action)
        return why

    async def _names(self, name: str) -> NodeNames | None:
        """Return the Node's present names: an address that is new is not denied."""
        node = await self._kube.get(Node, name)
        if node is None:
            return None
        return names_of(node, lambda claimed: self._nodes.find(BY_CLAIM, claimed), self._holder)

    async def _decide(self, request: CertificateRequest, why: str) -> None:
        name, requester = request.metadata.name, request.spec.username
        if why:
            log.warning(
                "denying_certificate_request", request=name, requester=requester, reason=why
            )
            type_, text = "Denied", f"Certificate request has been denied by {APPROVER}: {why}"
        else:
            log.info("approving_certificate_request", request=name, requester=requester)
            type_, text = "Approved", f"Certificate request has been approved by {APPROVER}"
        condition = CertificateCondition(type_, "True", APPROVER, text, self._clock.now())
        status = request.status
        written = replace(status, conditions=(*status.conditions, condition))
        self._requests.wrote(await self._kube.patch_status(request, written))


def _is_decided(request: CertificateRequest) -> bool:
    """Whether the request is approved or denied already; neither can be taken back.

    An approval by another than this operator is logged: it makes this approver worthless.
    """
    found = [c for c in request.status.conditions if c.type in ("Approved", "Denied")]
    for condition in found:
        if condition.type == "Approved" and condition.reason != APPROVER:
            log.warning(
                "certificate_request_approved_elsewhere",
                request=request.metadata.name,
                approver=condition.reason,
                way_out="take the approval of this issuer from it: docs/security.md",
            )
    return bool(found)
