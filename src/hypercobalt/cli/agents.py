"""Calls to the agents of a host: where they are, and what a person shows them.

A person's own token goes to the API server alone. An agent is shown the kubeconfig's client
certificate, or, of a ServiceAccount, a token that is good for this one agent.

Decision: docs/decisions/0033-access-to-agents.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec

from hypercobalt.api.access import SelfSubjectReview, TokenRequest, TokenRequestSpec
from hypercobalt.api.diagnostics import DiagnosticsEndpoint, audience, path
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.api.rbac import ServiceAccount
from hypercobalt.cli import api_command, switches
from hypercobalt.errors import HypercobaltError, InvalidRequestError, TransientError
from hypercobalt.kubeconfig import Connection
from hypercobalt.runtime import ForbiddenError, Kube, SystemClock
from hypercobalt.runtime.client import pinned
from hypercobalt.runtime.client.auth import Credential, credentials_for
from hypercobalt.runtime.client.pinned import Pinned, Reply

ACCOUNT: Final = "system:serviceaccount:"
TOKEN_SECONDS: Final = 600
"""The shortest that the API server gives."""

_BEGINS_SECONDS: Final = 40.0
"""Longer than any use takes to begin, with its admission and its Event."""

_WHOLE_SECONDS: Final = 120.0
"""Deadline of a whole answer, also where a byte comes now and then; ours take some seconds."""

MOST: Final = 16 * 2**20
"""Bytes of a whole answer: a captured host's agent sends what it likes. Ours send some 100 KiB."""

_INVALID: Final = (400, 404, 405, 413)
"""Answers that blame the request, not the agent."""

T = TypeVar("T", bound=msgspec.Struct)
Subject = type[OVSNode] | type[Hypervisor]
AGENTS: Final[Mapping[Subject, str]] = {OVSNode: "ovs-agent", Hypervisor: "node-agent"}


@asynccontextmanager
async def opened(
    subject: Subject,
    node: str,
    use: str,
    parameters: Mapping[str, str],
    *,
    method: str = "GET",
    idle: float | None = None,
    kubeconfig: Path | None = None,
) -> AsyncGenerator[Reply]:
    """Begin a use of a host's agent; leaving ends it there.

    Args:
        subject: kind of the object whose agent is meant.
        node: name of the host.
        use: last part of its path.
        parameters: of the query.
        method: GET or POST.
        idle: longest silence within the answer, in seconds; None sets no limit.
        kubeconfig: see `api_command.connection`.

    Raises:
        InvalidRequestError: there is no such host, or its agent refuses what is requested.
        HypercobaltError: the agent or the API server cannot be reached, or refuse the person.
    """
    connection = api_command.connection(kubeconfig)
    async with api_command.client(kubeconfig) as kube:
        endpoint = await _endpoint(kube, connection.namespace, subject, node)
        shown = await credential(kube, connection, audience(AGENTS[subject], node))
    target = path(subject, node, use)
    if parameters:
        target = f"{target}?{urlencode(parameters)}"
    server = Pinned(endpoint.url, endpoint.certificateSHA256)
    call = pinned.call(server, method, target, shown, seconds=_BEGINS_SECONDS, idle=idle)
    with explained(AGENTS[subject], node, endpoint.url):
        async with call as reply:
            yield reply


@contextmanager
def explained(agent: str, node: str, url: str) -> Generator[None]:
    """Name the agent in the errors of a call to it, and what to do.

    Args:
        agent: its kind.
        node: name of the host.
        url: where it was called.
    """
    try:
        yield
    except pinned.PinError as error:
        raise HypercobaltError(
            f"{error}: it has just started, so try again; if this lasts, {url} is not the "
            f"{agent} of {node}"
        ) from error
    except pinned.CutOffError:
        raise
    except TransientError as error:
        raise TransientError(
            f"the {agent} of {node} does not answer: {error}; `cobalt explain {node}` shows "
            "whether the host lives"
        ) from error
    except pinned.RefusedError as error:
        kind = InvalidRequestError if error.code in _INVALID else HypercobaltError
        raise kind(f"{node}: {error}") from error


async def whole(
    subject: Subject,
    node: str,
    use: str,
    parameters: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    kubeconfig: Path | None = None,
) -> bytes:
    """The whole answer of a use; the arguments are those of `opened`.

    Raises:
        HypercobaltError: it has more than MOST bytes or takes too long, or see `opened`.
    """
    given, found = parameters or {}, bytearray()
    async with opened(
        subject, node, use, given, method=method, idle=_BEGINS_SECONDS, kubeconfig=kubeconfig
    ) as reply:
        try:
            async with asyncio.timeout(_WHOLE_SECONDS):
                async for chunk in reply.chunks:
                    found += chunk
                    if len(found) > MOST:
                        raise HypercobaltError(
                            f"{node}: the answer to {use} has more than {MOST // 2**20} MiB, which "
                            f"no agent of ours sends: check the {AGENTS[subject]} of {node}"
                        )
        except TimeoutError as error:
            raise HypercobaltError(
                f"{node}: the answer to {use} is not complete after {_WHOLE_SECONDS:g} s: check "
                f"the {AGENTS[subject]} of {node}, and the network to it"
            ) from error
    return bytes(found)


async def report(
    type_: type[T],
    node: str,
    use: str,
    parameters: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    kubeconfig: Path | None = None,
) -> T:
    """What an OVS agent reports, read; the other arguments are those of `opened`.

    Raises:
        HypercobaltError: it is no such report, or see `whole`.
    """
    body = await whole(OVSNode, node, use, parameters, method=method, kubeconfig=kubeconfig)
    try:
        return msgspec.json.decode(body, type=type_)
    except (ValueError, RecursionError) as error:  # ValueError: of msgspec, and of its text
        raise HypercobaltError(
            f"{node}: the answer to {use} cannot be read ({error}): check the "
            f"{AGENTS[OVSNode]} of {node}, and that its version is that of this command"
        ) from error


async def _endpoint(kube: Kube, namespace: str, subject: Subject, node: str) -> DiagnosticsEndpoint:
    if subject is Hypervisor:
        found = (await api_command.hypervisor(kube, node)).status.diagnostics
    else:
        found = (await switches.of_host(kube, namespace, node)).status.diagnostics
    if found is None:
        raise HypercobaltError(
            f"the {AGENTS[subject]} of {node} publishes no address: start or upgrade it, and give "
            "it --diagnostics-bind-address (diagnostics.enabled in its chart)"
        )
    return found


async def credential(kube: Kube, connection: Connection, for_whom: str) -> Credential:
    """What a person shows to the server of an audience.

    Raises:
        HypercobaltError: the kubeconfig has nothing that may be shown to a host.
    """
    own = await credentials_for(connection, SystemClock()).current()
    if own.certificate is not None:
        return Credential(certificate=own.certificate)
    who = (await kube.create(SelfSubjectReview())).status.userInfo.username
    if not who.startswith(ACCOUNT):
        raise InvalidRequestError(
            f"the kubeconfig's user {who} has only a token, which is not sent to a host; use a "
            "kubeconfig with a client certificate, or one of a ServiceAccount with the rights "
            "(docs/security.md, Diagnostics)"
        )
    namespace, _, name = who.removeprefix(ACCOUNT).partition(":")
    request = TokenRequest(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=TokenRequestSpec(audiences=(for_whom,), expirationSeconds=TOKEN_SECONDS),
    )
    try:
        made = await kube.create_in(ServiceAccount, name, "token", request, namespace)
    except ForbiddenError as error:
        raise HypercobaltError(
            f"ServiceAccount {namespace}/{name} may not request a token for itself: give it "
            f"`create` on serviceaccounts/token of that name ({error})"
        ) from error
    if not made.status.token:
        raise TransientError(f"the API server gave no token for {for_whom}")
    return Credential(authorization=f"Bearer {made.status.token}")
