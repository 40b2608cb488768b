"""Parts of a site that vary from run to run: fence devices, stored definitions, and Secrets."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from tests.conformance.wire import Body
from tests.integration.cert_manager import request_of_agent

from hypercobalt.adapters.fencing.devices import DeviceTemplate, parse
from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.port import Daemons
from hypercobalt.api.codec import to_builtins
from hypercobalt.api.definitions import HOST_LABEL, HostDefinitions, pack
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.sealing import Owner, PublicKey
from hypercobalt.api.signing_request import key_digest
from hypercobalt.compute.connect import ReadDefinitions
from hypercobalt.compute.direct.definitions import StoredByAgents
from hypercobalt.compute.direct.directory import HypervisorDirectory
from hypercobalt.compute.direct.guarded import GuardedDaemons
from hypercobalt.compute.direct.ports import NoPorts
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.compute.port import ComputeService
from hypercobalt.lab import rights
from hypercobalt.operator.assembly import Connect, add_controllers
from hypercobalt.operator.ha.devices.template_fences import Open
from hypercobalt.operator.settings import OperatorOptions
from hypercobalt.runtime import Clock, Manager, Metrics

SHARED: Final = "/shared/vms"
ISSUER: Final = "nova-ca"
"""Name of the issuer of the hosts' certificates."""
KEY: Final = "hypercobalt-operator-definitions-key"
"""Name of the Secret with the key that definitions are sealed for."""
CREDENTIALS: Final = "lab-bmc"
"""Name of the Secret with the boards' password."""
PORT_LABEL, PROTOCOL_LABEL = "lab.cobalt/bmc-port", "lab.cobalt/bmc"
"""Labels of a Node by which its board was once found."""
BOARDS_AT: Final = "192.0.2.250"
PASSWORD: Final = "board-password-8d1f"
CONSOLE: Final = "console-password-{host}-42c7"
"""Console password in the definition of each guest, by its host."""


def new_key() -> ec.EllipticCurvePrivateKey:
    """A key that no host has."""
    return ec.generate_private_key(ec.SECP256R1())


HOST_KEY: Final = new_key()
"""The key on the captured host, whose agent's certificate is for it."""


def certificate_request(host: str, address: str, key: ec.EllipticCurvePrivateKey) -> Body:
    """A request as an agent makes it; its name follows from its key."""
    made = request_of_agent(host, address, issuer=ISSUER, key=key)
    digest = hashlib.sha256(made.spec.request).hexdigest()[:10]
    body: Body = to_builtins(made)
    body |= {"apiVersion": "cert-manager.io/v1", "kind": "CertificateRequest"}
    body["metadata"] |= {"name": f"libvirt-{host}-{digest}", "namespace": rights.NAMESPACE}
    body["spec"]["username"] = f"system:serviceaccount:{rights.NAMESPACE}:{rights.NODE_AGENT}"
    return body


def is_of_the_host(request: Body) -> bool:
    """Whether a request is for the key on the captured host."""
    theirs, own = (
        key_digest(base64.b64decode(one["spec"]["request"]))
        for one in (request, certificate_request("any", "192.0.2.1", HOST_KEY))
    )
    return theirs == own


def port(number: int) -> str:
    """Port of the board of the host with that number."""
    return str(7000 + number)


def devices(hosts: Iterable[str]) -> tuple[DeviceTemplate, ...]:
    """The fence devices of the site, as its administrator has written them."""
    named = {
        name: {"ip": BOARDS_AT, "ipport": port(number)} for number, name in enumerate(hosts, 1)
    }
    template = {
        "name": "redfish",
        "agent": "fence_redfish",
        "parameters": {"ssl_insecure": "1"},
        "hosts": named,
        "secret": CREDENTIALS,
        "timeoutSeconds": 30,
    }
    return parse(json.dumps({"devices": [template]}))


def labels(number: int) -> dict[str, str]:
    """Labels of a host's Node, for its fence devices."""
    return {PORT_LABEL: port(number), PROTOCOL_LABEL: "redfish"}


def add(
    manager: Manager, options: OperatorOptions, metrics: Metrics, connect: Connect, open_: Open
) -> None:
    """Add the operator's controllers, with what opens a fence device."""
    add_controllers(manager, options, metrics, connect, open_device=open_)


def secrets() -> tuple[Body, ...]:
    """What no agent may read, in the namespace of the agents."""

    def made(name: str, **data: str) -> Body:
        coded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": rights.NAMESPACE},
            "type": "Opaque",
            "data": coded,
        }

    return (made(CREDENTIALS, username="operator", password=PASSWORD),)


def definitions_path(host: str) -> str:
    """Path of the object with a host's definitions."""
    group = "/apis/kvm.cloud.sap/v1alpha1"
    return f"{group}/namespaces/{rights.NAMESPACE}/sealeddefinitions/{host}"


def definitions_body(host: str, found: HostDefinitions, hypervisor: Body) -> Body | None:
    """The object with a host's definitions as its agent seals it; None before it has a key.

    Args:
        host: whose guests they are.
        found: the definitions.
        hypervisor: of the writer, as just read.
    """
    uid, text = hypervisor["metadata"]["uid"], hypervisor["status"].get("definitionsKey")
    if not text:
        return None
    key = PublicKey(text)
    sealed = key.seal(pack(found).data, Owner(host, uid))
    return {
        "apiVersion": "kvm.cloud.sap/v1alpha1",
        "kind": "SealedDefinitions",
        "metadata": {"name": host, "labels": {HOST_LABEL: host}},
        "spec": {
            "key": key.id,
            "hypervisorUID": uid,
            "sealed": base64.b64encode(sealed).decode(),
        },
    }


def mark(uid: str) -> str:
    """Name of the file that a host leaves in the directories of its disks."""
    return f".hypercobalt-{uid}"


def direct(
    hypervisors: Callable[[], Iterable[Hypervisor]],
    guard: LeaderGuard,
    read: ReadDefinitions | None,
    daemons: Daemons,
    clock: Clock,
) -> ComputeService:
    """The compute service `direct`, with the defaults of a site."""
    return DirectService(
        HypervisorDirectory(hypervisors, DirectSettings()),
        GuardedDaemons(daemons, guard),
        NoPorts(),
        stored=StoredByAgents(read, clock.monotonic) if read else None,
        clock=clock,
        allowed=Allowed(shared=(SHARED,)),
    )
