"""Settings of the operator, which its command line makes: so they load no controller.

The process that the command becomes loads them, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from hypercobalt.adapters.fencing.devices import DeviceTemplate
from hypercobalt.api.address import Address
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.nova.settings import NovaSettings
from hypercobalt.launch import ProcessSettings
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.lifecycle.settings import LifecycleSettings

COMPONENT: Final = "hypercobalt-operator"

Kind = Literal["nova", "direct", "none"]

GARDENER_NAMESPACE: Final = "kube-system"
"""Where the pod holds a Node for Gardener, unless a site names another."""
SIGNAL_IMAGE: Final = "busybox:1.37.0"


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """The settings of a site.

    Args:
        agent_namespaces: where the agents' pods live; at least one.
        issuing: where the hosts' certificates come from.
        signal_image: of the pod that holds a Node for Gardener.
        gardener_namespace: of that pod; "" where Nodes are not Gardener's: neither Deployments nor
            disruption budgets are watched or written then, and no Node is tainted.
        label_selector: restricts Nodes and Hypervisors to a shard; "" takes all.
        lifecycle: of hosts in the compute service.
        eviction: limits and choices.
        ha: reactions to hosts that fail.
        fence_devices: templates of the hosts' fence devices.
        fence_namespace: of the Secrets with their credentials.
        ovs_namespace: of the OVSNodes and their agents' Leases; "" follows none.
        definitions_secret: name of the Secret, in the operator's namespace, with the keys that
            agents' stored definitions are sealed for; "" where none are read.
    """

    agent_namespaces: tuple[str, ...]
    issuing: Issuing
    signal_image: str = SIGNAL_IMAGE
    gardener_namespace: str = GARDENER_NAMESPACE
    label_selector: str = ""
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    eviction: Policy = field(default_factory=Policy)
    ha: HaSettings = field(default_factory=HaSettings)
    fence_devices: tuple[DeviceTemplate, ...] = ()
    fence_namespace: str = ""
    ovs_namespace: str = ""
    definitions_secret: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings(ProcessSettings):
    """LifecycleSettings that the command line passes to the process.

    Args:
        options: of the controllers.
        compute: where instances run.
        direct: how `direct` reaches hosts.
        nova: settings of `nova`.
        leader_elect: one of several processes is active.
        contract: where other controllers switch high availability; None: nowhere.
        contract_secure: as `metrics_secure`.
        contract_files: directory of the certificate and its key; None: the next counts.
        contract_certificate: as `metrics_certificate`.
    """

    options: OperatorOptions
    compute: Kind
    direct: DirectSettings
    nova: NovaSettings
    leader_elect: bool
    contract: Address | None
    contract_secure: bool
    contract_files: Path | None
    contract_certificate: int | None = None
