"""Tokens of the lab's ServiceAccounts, written where their users read them, and renewed in time.

    python -m hypercobalt.lab.tokens DIRECTORY

Stands in for what kubelets do for pods: an agent's token is bound to its host's Node, so the API
server can verify on which Node its bearer runs. A host cannot get a token for another one, because
the tokens are requested from the machine, where the administrator's credentials stay.

Source: kubernetes pkg/kubelet/token/token_manager.go; k8s.io/api, authentication/v1 TokenRequest.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from hypercobalt.api.access import BoundObjectReference, TokenRequest, TokenRequestSpec
from hypercobalt.api.rbac import ServiceAccount
from hypercobalt.errors import HypercobaltError
from hypercobalt.lab import rights
from hypercobalt.lab import state as records
from hypercobalt.lab.disk import Disk
from hypercobalt.lab.pods.rights import VIRT_NAMESPACE
from hypercobalt.lab.state import Layout
from hypercobalt.pki import write_secret
from hypercobalt.runtime import Kube, load_connection
from hypercobalt.vmi.accounts import Account

OF_NODE_AGENT: Final = "/etc/hypercobalt/token"
"""In a host: the token of its node agent, readable by root only."""
OF_OVS_AGENT: Final = "/etc/hypercobalt/ovs-agent/token"
"""In a host: the token of its OVS agent, readable by root only."""
OF_VIRT_HANDLER: Final = "/etc/hypercobalt/virt-handler/token"
"""In a host: the token of its virt-handler, readable by root only."""
_ACCOUNTS: Final = {
    OF_NODE_AGENT: (rights.NODE_AGENT, rights.NAMESPACE),
    OF_OVS_AGENT: (rights.OVS_AGENT, rights.OVS_NAMESPACE),
    OF_VIRT_HANDLER: (str(Account.HANDLER), VIRT_NAMESPACE),
}
LIFETIME: Final = timedelta(hours=1)
RENEW: Final = LIFETIME / 3
"""Age at which a token is renewed; a renewal that fails has twice this time left."""
_RETRY: Final = timedelta(seconds=10)
_TICK_SECONDS: Final = 5.0  # by the wall clock: a machine that slept renews at once


async def issue(kube: Kube, account: str, node: str = "", namespace: str = rights.NAMESPACE) -> str:
    """A fresh token of a ServiceAccount.

    Args:
        kube: the administrator's.
        account: name of the ServiceAccount.
        node: that it is bound to; "" for none.
        namespace: of the ServiceAccount.

    Raises:
        HypercobaltError: the server refuses; the account or the Node is missing.
    """
    bound = BoundObjectReference(kind="Node", apiVersion="v1", name=node) if node else None
    seconds = round(LIFETIME.total_seconds())
    request = TokenRequest(spec=TokenRequestSpec(expirationSeconds=seconds, boundObjectRef=bound))
    made = await kube.create_in(ServiceAccount, account, "token", request, namespace)
    return made.status.token


async def give_agent(kube: Kube, node: str, disk: Disk, path: str = OF_NODE_AGENT) -> None:
    """Give an agent of a host a fresh token.

    Args:
        kube: the administrator's.
        node: name of the host's Node.
        disk: of the host.
        path: where the agent reads its token: one of `OF_…`.

    Raises:
        HypercobaltError: the server refuses, or the host's disk cannot be written.
    """
    account, namespace = _ACCOUNTS[path]
    disk.write(path, await issue(kube, account, node, namespace), mode=0o600)


async def give_operator(kube: Kube, layout: Layout) -> None:
    """Give the operator a fresh token.

    Raises:
        HypercobaltError: the server refuses.
    """
    write_secret(layout.operator_token, (await issue(kube, rights.OPERATOR)).encode())


async def give_virt_controller(kube: Kube, layout: Layout) -> None:
    """Give virt-controller a fresh token.

    Raises:
        HypercobaltError: the server refuses.
    """
    token = await issue(kube, Account.CONTROLLER, namespace=VIRT_NAMESPACE)
    write_secret(layout.controller_token, token.encode())


async def renew(layout: Layout) -> bool:
    """Renew every token that has been given; what fails is reported, and the others are renewed.

    Returns:
        Whether all of them are new.

    Raises:
        HypercobaltError: the lab's state or the administrator's kubeconfig cannot be read.
    """
    state = records.load(layout)
    done = True
    async with Kube(load_connection(layout.kubeconfig), field_manager="cobalt-lab") as kube:
        if layout.operator_token.exists():
            done = await _succeeds("operator", give_operator(kube, layout))
        if layout.controller_token.exists():
            done &= await _succeeds("virt-controller", give_virt_controller(kube, layout))
        for host in state.hosts if state else ():
            disk = Disk(layout.host(host.name))
            for path in (path for path in _ACCOUNTS if disk.read(path)):
                done &= await _succeeds(host.name, give_agent(kube, host.name, disk, path))
    return done


async def _succeeds(whose: str, work: Awaitable[None]) -> bool:
    try:
        await work
    except (HypercobaltError, OSError) as error:
        sys.stderr.write(f"token_not_renewed: {whose}: {error}\n")
        return False
    return True


async def run(data: Path) -> None:
    """Renew the tokens of a lab until the process is killed, with everything of the lab."""
    layout = Layout.at(data)
    due = datetime.now(UTC) + RENEW  # the `up` that starts this gives new ones
    while True:
        if datetime.now(UTC) >= due:
            try:
                done = await renew(layout)
            except HypercobaltError as error:
                sys.stderr.write(f"tokens_not_renewed: {error}\n")
                done = False
            due = datetime.now(UTC) + (RENEW if done else _RETRY)
        await asyncio.sleep(_TICK_SECONDS)


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
