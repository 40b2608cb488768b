"""`cobalt operator`: the Hypervisor Operator of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from hypercobalt.api.address import parse_address
from hypercobalt.api.names import namespace_name
from hypercobalt.cli.common_flags import (
    HealthAddress,
    Kubeconfig,
    LogFlags,
    MetricsAcceptApiServerTokens,
    MetricsAddress,
    MetricsSecure,
    Version,
)
from hypercobalt.cli.operator_compute import DirectFlags, NovaFlags
from hypercobalt.cli.operator_flags import (
    CertificateFlags,
    EvictionFlags,
    HaFlags,
    LifecycleFlags,
    TestFlags,
    given,
)
from hypercobalt.cli.start import start
from hypercobalt.errors import ConfigurationError
from hypercobalt.kubeconfig import load as load_connection
from hypercobalt.launch import inherited, own_certificate
from hypercobalt.operator.settings import (
    COMPONENT,
    GARDENER_NAMESPACE,
    SIGNAL_IMAGE,
    Kind,
    OperatorOptions,
    OperatorSettings,
)

_CERTIFICATE, _TEST, _LIFECYCLE, _EVICTION, _HA, _DIRECT, _NOVA, _LOG = (
    CertificateFlags(),
    TestFlags(),
    LifecycleFlags(),
    EvictionFlags(),
    HaFlags(),
    DirectFlags(),
    NovaFlags(),
    LogFlags(),
)


def operator(
    *,
    kubeconfig: Kubeconfig = None,
    agent_namespaces: Annotated[str, Parameter(env_var="AGENT_NAMESPACES")] = "",
    ovs_agent_namespace: Annotated[str, Parameter(env_var="OVS_AGENT_NAMESPACE")] = "ovn-system",
    label_selector: Annotated[str, Parameter(env_var="LABEL_SELECTOR")] = "",
    certificate: CertificateFlags = _CERTIFICATE,
    gardener: bool = True,
    gardener_namespace: str = GARDENER_NAMESPACE,
    signal_image: str = SIGNAL_IMAGE,
    compute: Annotated[Kind, Parameter(env_var="COMPUTE")] = "nova",
    test: TestFlags = _TEST,
    lifecycle: LifecycleFlags = _LIFECYCLE,
    eviction: EvictionFlags = _EVICTION,
    ha: HaFlags = _HA,
    direct: DirectFlags = _DIRECT,
    nova: NovaFlags = _NOVA,
    leader_elect: bool = False,
    metrics_bind_address: MetricsAddress = "0",
    metrics_secure: MetricsSecure = True,
    metrics_accept_api_server_tokens: MetricsAcceptApiServerTokens = False,
    health_probe_bind_address: HealthAddress = ":8081",
    log: LogFlags = _LOG,
    enable_http2: Annotated[bool, Parameter(show=False)] = False,
    version: Version = False,
) -> int:
    """Make Hypervisors out of Nodes, and take them into service, through maintenance, and out.

    Parameters
    ----------
    agent_namespaces
        Namespaces of the agents' pods, with commas; required.
    ovs_agent_namespace
        Namespace of the OVSNodes and the Leases of their agents; empty follows none.
    label_selector
        Only Nodes and Hypervisors with these labels: one shard of a large cluster.
    gardener
        Hold Nodes with a pod until their hosts may be removed, as Gardener's machine controller
        expects, and taint those that leave. Without it no Node is written.
    gardener_namespace
        Namespace of those pods.
    signal_image
        Image of the pod that holds a Node for Gardener; needs sleep, /bin/true and /bin/false.
    compute
        Where instances run: nova is OpenStack, by clouds.yaml or OS_*; direct moves them from
        libvirt to libvirt; with none, hosts are neither onboarded nor emptied.
    leader_elect
        Enable leader election: one of several processes is active. The Lease is in its namespace.
    """

    def settings() -> OperatorSettings:
        options = OperatorOptions(
            agent_namespaces=_namespaces(agent_namespaces),
            issuing=certificate.issuing(),
            signal_image=given("--signal-image", signal_image),
            gardener_namespace=(
                namespace_name("--gardener-namespace", gardener_namespace) if gardener else ""
            ),
            label_selector=label_selector.strip(),
            lifecycle=lifecycle.settings(test),
            eviction=eviction.policy(),
            ha=ha.settings(),
            fence_devices=ha.devices(),
            fence_namespace=ha.fence_namespace
            and namespace_name("--fence-namespace", ha.fence_namespace),
            ovs_namespace=ovs_agent_namespace
            and namespace_name("--ovs-agent-namespace", ovs_agent_namespace),
            definitions_secret=(
                given("--definitions-secret", direct.definitions_secret)
                if compute == "direct"
                else ""
            ),
        )
        made = OperatorSettings(
            options=options,
            compute=compute,
            direct=direct.settings(),
            nova=nova.settings(test),
            kubeconfig=kubeconfig,
            leader_elect=leader_elect,
            metrics=parse_address("--metrics-bind-address", metrics_bind_address),
            metrics_secure=metrics_secure,
            metrics_accept_api_server_tokens=metrics_accept_api_server_tokens,
            health=parse_address("--health-probe-bind-address", health_probe_bind_address),
            contract=ha.contract(),
            contract_secure=ha.ha_service_secure,
            contract_files=ha.ha_service_cert_path,
            log_level=log.level(),
            log_text=log.as_text(),
        )
        load_connection(kubeconfig)  # one that cannot be used is refused here
        if made.contract is None or not made.contract_secure or made.contract_files:
            return made
        return replace(made, contract_certificate=inherited(own_certificate()))

    return start(COMPONENT, "hypercobalt.operator", settings, version=version)


def _namespaces(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise ConfigurationError(
            "--agent-namespaces is empty: list the namespaces of the agents' pods, with commas"
        )
    return tuple(namespace_name("--agent-namespaces", one) for one in found)
