"""Which instances have a console, and how virt-api refuses."""

from __future__ import annotations

import dataclasses
import json
from typing import cast

import pytest
from msgspec.structs import replace

from hypercobalt.api.kubevirt.console import PROTOCOL, console_path
from hypercobalt.api.kubevirt.devices import DevicesSpec
from hypercobalt.api.kubevirt.names import VMIPhase
from hypercobalt.api.kubevirt.spec import DomainSpec, VMISpec
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Kube
from hypercobalt.runtime.routes import Answer, Request, Requester
from hypercobalt.runtime.websocket import new_key
from hypercobalt.virt.api.front_proxy import FrontProxy
from hypercobalt.virt.api.handler_address import ANYWHERE
from hypercobalt.virt.api.statuses import refusal
from hypercobalt.virt.api.subresources import (
    OwnAccount,
    RefusedConsoleError,
    Subresources,
    node_of,
)

RUNS = VirtualMachineInstance(
    metadata=ObjectMeta(name="vm", namespace="a"),
    status=VMIStatus(phase=VMIPhase.RUNNING, nodeName="kvm-1"),
)
NO_PORT = VMISpec(domain=DomainSpec(devices=DevicesSpec(autoattachSerialConsole=False)))


def test_guest_that_runs_has_a_console_on_its_node() -> None:
    assert node_of(RUNS) == "kvm-1"


@pytest.mark.parametrize(
    ("vmi", "code", "why"),
    [
        (replace(RUNS, status=VMIStatus()), 400, "a/vm is Pending, not Running"),
        (replace(RUNS, status=VMIStatus(phase=VMIPhase.SCHEDULED, nodeName="k")), 400, "Scheduled"),
        (replace(RUNS, status=VMIStatus(phase=VMIPhase.SUCCEEDED, nodeName="k")), 400, "Succeeded"),
        (replace(RUNS, status=VMIStatus(phase=VMIPhase.FAILED, nodeName="k")), 409, "is Failed"),
        (replace(RUNS, status=VMIStatus(phase=VMIPhase.RUNNING)), 400, "not Running"),
        (replace(RUNS, spec=NO_PORT), 400, "has no serial console"),
    ],
)
def test_guest_without_a_console_is_refused_as_by_kubevirt(
    vmi: VirtualMachineInstance, code: int, why: str
) -> None:
    with pytest.raises(RefusedConsoleError, match=why) as found:
        node_of(vmi)
    assert found.value.code == code


def test_refusal_fits_into_what_clients_of_websockets_read() -> None:
    answer = refusal(503, "a\x1b[31m" + "\u00e4" * 5000)
    for text in ("a", "\u00e4", '"', "\\", "\ud800"):
        assert len(refusal(503, text * 5000).body) <= 1024
    found = json.loads(answer.body)
    assert (found["kind"], found["code"], found["reason"]) == ("Status", 503, "ServiceUnavailable")
    assert "\x1b" not in found["message"]
    assert answer.kind == "application/json"


class Away:
    """An API server that does not answer."""

    async def get(self, *_: object) -> None:
        raise TransientError("the API server is away")


OPENS = Request(
    "GET",
    console_path("a", "vm"),
    "",
    {
        "upgrade": "websocket",
        "sec-websocket-key": new_key(),
        "sec-websocket-version": "13",
        "sec-websocket-protocol": PROTOCOL,
    },
    requester=Requester("jane"),
)


async def answered(request: Request, most: int = 1, times: int = 1) -> tuple[int, str]:
    """The last answer to a request that is sent so often."""
    kube, account = cast("Kube", Away()), OwnAccount("kubevirt", "kubevirt-apiserver")
    pages = Subresources(kube, account, ANYWHERE, FrontProxy, most)
    console = pages.routes[0]
    for _ in range(times):
        found = await console.handle(request)
    assert isinstance(found, Answer)
    return found.status, json.loads(found.body)["message"]


async def test_consoles_at_once_are_bounded() -> None:
    code, why = await answered(OPENS, most=0)
    assert (code, "close one" in why) == (429, True)


async def test_console_that_is_not_opened_leaves_its_place() -> None:
    code, why = await answered(OPENS, times=3)
    assert (code, why) == (503, "the API server is away")


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        ({"headers": {}}, 400, "this is a websocket"),
        ({"headers": {**OPENS.headers, "sec-websocket-protocol": "x"}}, 400, PROTOCOL),
        ({"query": "preserveSession=true"}, 400, "preserveSession"),
        ({"method": "HEAD"}, 405, "GET"),
        ({"requester": None}, 404, "no such console"),
    ],
)
async def test_request_that_is_no_console_is_refused(
    change: dict[str, object], code: int, why: str
) -> None:
    found = await answered(dataclasses.replace(OPENS, **change))  # type: ignore[arg-type]
    assert found[0] == code
    assert why in found[1]
