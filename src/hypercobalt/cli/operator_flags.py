"""Flags of `cobalt operator` by concern, and what they become."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt.adapters.fencing.devices import DeviceTemplate, parse
from hypercobalt.api.address import Address, parse_address
from hypercobalt.api.certificate import IssuerKind
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.api.names import namespace_name
from hypercobalt.cli.common_flags import Span
from hypercobalt.compute.nova.settings import SmokeSettings
from hypercobalt.errors import ConfigurationError
from hypercobalt.ha.host_failure.guard import CEILING, GateLimits
from hypercobalt.ha.host_failure.node_failure import Waits
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.eviction.model.policy import Doubt, Order, Policy, StuckHelp
from hypercobalt.operator.ha.settings import DOMAIN_LABELS, HaSettings
from hypercobalt.operator.lifecycle.settings import LifecycleSettings, check_probe, parse_version
from hypercobalt.operator.shared.ha_mode import HaMode

_SITE: Final = LifecycleSettings()
_TEST: Final = SmokeSettings()
_EVICT: Final = Policy()
_WAITS: Final = Waits()
_LIMITS: Final = GateLimits()


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class CertificateFlags:
    """The hosts' certificates for libvirt and QEMU.

    Parameters
    ----------
    certificate_source
        As the node agents have it: request, keys are made on the hosts and the agents'
        CertificateRequests are approved for the own host only; secret, each host has a Certificate
        whose key is in a Secret.
    certificate_namespace
        Of the hosts' Certificates or CertificateRequests, and their Issuer.
    certificate_issuer_name
        Name of the cert-manager issuer.
    certificate_issuer_kind
        Issuer, in that namespace, or ClusterIssuer.
    """

    certificate_source: Annotated[CertificateSource, Parameter(env_var="CERTIFICATE_SOURCE")] = (
        CertificateSource.SECRET
    )
    certificate_namespace: Annotated[str, Parameter(env_var="CERTIFICATE_NAMESPACE")] = "monsoon3"
    certificate_issuer_name: Annotated[str, Parameter(env_var="CERTIFICATE_ISSUER_NAME")] = (
        "nova-hypervisor-agents-ca-issuer"
    )
    certificate_issuer_kind: Annotated[IssuerKind, Parameter(env_var="CERTIFICATE_ISSUER_KIND")] = (
        "Issuer"
    )

    def issuing(self) -> Issuing:
        """Where the certificates come from."""
        return Issuing(
            namespace_name("--certificate-namespace", self.certificate_namespace),
            given("--certificate-issuer-name", self.certificate_issuer_name),
            self.certificate_issuer_kind,
            self.certificate_source,
        )


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class TestFlags:
    """The server that onboarding boots on a new host.

    Parameters
    ----------
    test_project
        Project that test servers belong to; "" for the account's own.
    test_project_domain
        Domain of that project.
    test_flavor
        Id of their flavor.
    test_image
        Name of their image.
    test_network
        Name or id of their network; "" for the first that is not shared, none for no port.
    test_volume_type
        Type of the volume that they boot from; "" for the default type.
    test_volume_gib
        Its size; 0 boots from the image, without a volume.
    test_aggregate
        Aggregate that a host is in for its test, besides its zone's; "" for none.
    test_tries
        Servers that are booted before onboarding is aborted.
    test_build_limit
        How long a server may take to run.
    test_console_limit
        How long a running one may take to print its name.
    """

    test_project: str = _TEST.project
    test_project_domain: str = _TEST.project_domain
    test_flavor: str = _TEST.flavor
    test_image: str = _TEST.image
    test_network: str = _TEST.network
    test_volume_type: str = _TEST.volume_type
    test_volume_gib: int = _TEST.volume_gib
    test_aggregate: str = _SITE.test_aggregate
    test_tries: int = _SITE.test_tries
    test_build_limit: Span = _SITE.build_limit
    test_console_limit: Span = _SITE.console_limit

    __test__ = False  # no test of pytest's, in spite of its name

    def smoke(self) -> SmokeSettings:
        """The server that the smoke test boots."""
        _positive("--test-volume-gib", self.test_volume_gib, zero=True)
        return SmokeSettings(
            project=self.test_project,
            project_domain=self.test_project_domain,
            flavor=self.test_flavor,
            image=self.test_image,
            network=self.test_network,
            volume_type=self.test_volume_type,
            volume_gib=self.test_volume_gib,
        )


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class LifecycleFlags:
    """A host's way through the compute service.

    Parameters
    ----------
    minimum_libvirt
        Oldest version of libvirt that is onboarded with a test.
    bridge
        Integration bridge that an OVSNode must show healthy before the test.
    storage_probes
        Conditions that must be True before the test, with commas: node:TYPE, hypervisor:TYPE.
    onboarding_retry
        How long an onboarding that failed rests before it is tried again.
    compare
        How often the fleet is compared with listings of the compute service; longer in proportion
        beyond 1,000 hosts.
    resync
        How often every host gets a pass though nothing has changed, as a safety net.
    """

    minimum_libvirt: str = _SITE.minimum_libvirt
    bridge: str = _SITE.bridge
    storage_probes: str = ""
    onboarding_retry: Span = _SITE.retry_pause
    compare: Span = _SITE.compare
    resync: Span = _SITE.resync

    def settings(self, test: TestFlags) -> LifecycleSettings:
        """Settings of the lifecycle steps."""
        if parse_version(self.minimum_libvirt) is None:
            raise ConfigurationError(
                f"--minimum-libvirt {self.minimum_libvirt!r}: must look like 8.0.0"
            )
        probes = [part.strip() for part in self.storage_probes.split(",") if part.strip()]
        _positive("--test-tries", test.test_tries)
        return LifecycleSettings(
            test_aggregate=test.test_aggregate,
            minimum_libvirt=self.minimum_libvirt,
            bridge=self.bridge,
            storage_probes=tuple(map(check_probe, probes)),
            test_tries=test.test_tries,
            build_limit=test.test_build_limit,
            console_limit=test.test_console_limit,
            retry_pause=self.onboarding_retry,
            compare=self.compare,
            resync=self.resync,
        )


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class EvictionFlags:
    """How hosts are emptied.

    Parameters
    ----------
    max_parallel_per_source
        Moves away from one host at once; an Eviction's spec.parallelism replaces it.
    max_parallel_per_target
        Moves to one host at once, each with its target named; 0 leaves the targets to the compute
        service, and begins two moves for each host that could take the next instance, more once it
        has shown that it bears them.
    max_parallel
        Moves at once, over all Evictions, and as many evacuations, which copy nothing.
    eviction_order
        Which instances go first: those with most memory, with least, or the running ones.
    eviction_doubt
        When not every instance can be moved: warn and move the others, or stop.
    eviction_stuck
        What to do first for a live migration without progress: force it, or none.
    eviction_longest
        How long a move may show no progress while it waits in a queue or its disks are copied, or
        that reports none.
    """

    max_parallel_per_source: int = _EVICT.per_source
    max_parallel_per_target: int = _EVICT.per_target
    max_parallel: int = _EVICT.per_cluster
    eviction_order: Order = _EVICT.order
    eviction_doubt: Doubt = _EVICT.doubt
    eviction_stuck: StuckHelp = _EVICT.stuck_help
    eviction_longest: Span = _EVICT.longest

    def policy(self) -> Policy:
        """Policy of the Eviction controller."""
        _positive("--max-parallel-per-source", self.max_parallel_per_source)
        _positive("--max-parallel-per-target", self.max_parallel_per_target, zero=True)
        _positive("--max-parallel", self.max_parallel)
        return Policy(
            per_source=self.max_parallel_per_source,
            per_target=self.max_parallel_per_target,
            per_cluster=self.max_parallel,
            order=self.eviction_order,
            doubt=self.eviction_doubt,
            stuck_help=self.eviction_stuck,
            longest=self.eviction_longest,
        )


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class HaFlags:
    """Flags of the reaction to hosts that fail.

    Parameters
    ----------
    ha
        internal: fence a dead host, evacuate its instances and take it back; external: another
        service sets maintenance ha, and such a host is left to it; off: report failures only.
    ha_timeout
        How long nothing of a host may answer, from its Node's first not being Ready, before it may
        be fenced.
    ha_live_timeout
        How long a Node that is not Ready may stay so while its host lives, before its instances are
        migrated.
    ha_reboot_grace
        How long a host that was shutting down when it fell silent has to come back.
    ha_peer_timeout
        How long other hosts' agents have to answer whether they reach it.
    ha_healthy_delay
        How long a host that is back has to be in order before it takes instances again.
    ha_max_unhealthy
        Percent of all hosts, and of each failure domain, that may be unwell; at least 1 host, at
        most 49 percent. With more, nothing is fenced.
    ha_max_nodes
        Hosts that are recovered at once.
    ha_max_instances
        Instances that are recovered at once; one host alone may have more.
    ha_cool_down
        How long recovery pauses at most after too many hosts were unwell.
    ha_reboot_fenced
        Reboot a host that was fenced wrongly and is empty by its fence device.
    ha_domain_labels
        Labels of Hypervisors whose values are failure domains, with commas; aggregates are, too.
    fence_devices
        File with the templates of the hosts' fence devices, in YAML.
    fence_namespace
        Namespace of the Secrets with their credentials.
    ha_service_bind_address
        HOST:PORT where other controllers switch high availability of a host on and off, as on the
        existing HA service; :PORT for all addresses, 0 for none. Needs --ha internal.
    ha_service_secure
        Serve that over TLS, to users that the API server authorizes.
    ha_service_cert_path
        Directory with tls.crt and tls.key of that server, for callers to verify; they may be
        replaced. Without it a certificate is made at start.
    """

    ha: Annotated[HaMode, Parameter(env_var="HA")] = HaMode.EXTERNAL
    ha_timeout: Span = _WAITS.dead
    ha_live_timeout: Span = _WAITS.live
    ha_reboot_grace: Span = _WAITS.reboot
    ha_peer_timeout: Span = _WAITS.peers
    ha_healthy_delay: Span = _WAITS.healthy
    ha_max_unhealthy: int = _LIMITS.max_unhealthy
    ha_max_nodes: int = _LIMITS.nodes
    ha_max_instances: int = _LIMITS.instances
    ha_cool_down: Span = _LIMITS.cool_down
    ha_reboot_fenced: bool = True
    ha_domain_labels: str = ",".join(DOMAIN_LABELS)
    fence_devices: Annotated[Path | None, Parameter(env_var="FENCE_DEVICES")] = None
    fence_namespace: Annotated[str, Parameter(env_var="FENCE_NAMESPACE")] = ""
    ha_service_bind_address: str = "0"
    ha_service_secure: bool = True
    ha_service_cert_path: Path | None = None

    def contract(self) -> Address | None:
        """Where other controllers switch high availability; None: nowhere.

        Raises:
            ConfigurationError: it is no address, or another service is the HA service.
        """
        flag = "--ha-service-bind-address"
        address = parse_address(flag, self.ha_service_bind_address)
        if address is not None and self.ha is not HaMode.INTERNAL:
            text = f"{flag} {self.ha_service_bind_address}: needs --ha internal, not {self.ha}"
            raise ConfigurationError(text)
        return address

    def settings(self) -> HaSettings:
        """Settings of the HA service."""
        if not 0 <= self.ha_max_unhealthy <= CEILING:
            text = f"--ha-max-unhealthy {self.ha_max_unhealthy}: must be 0 to {CEILING} percent"
            raise ConfigurationError(text)
        _positive("--ha-max-nodes", self.ha_max_nodes)
        _positive("--ha-max-instances", self.ha_max_instances)
        waits = Waits(
            dead=self.ha_timeout,
            live=self.ha_live_timeout,
            reboot=self.ha_reboot_grace,
            peers=self.ha_peer_timeout,
            healthy=self.ha_healthy_delay,
        )
        limits = GateLimits(
            max_unhealthy=self.ha_max_unhealthy,
            nodes=self.ha_max_nodes,
            instances=self.ha_max_instances,
            cool_down=self.ha_cool_down,
        )
        labels = tuple(part.strip() for part in self.ha_domain_labels.split(",") if part.strip())
        return HaSettings(
            mode=self.ha,
            waits=waits,
            limits=limits,
            domain_labels=labels,
            reboots=self.ha_reboot_fenced,
        )

    def devices(self) -> tuple[DeviceTemplate, ...]:
        """The templates of fence devices.

        Raises:
            ConfigurationError: the file cannot be read, or has what no template has.
        """
        if self.fence_devices is None:
            return ()
        where = f"--fence-devices {self.fence_devices}"
        try:
            return parse(self.fence_devices.read_text())
        except OSError as error:
            raise ConfigurationError(f"{where}: {error.strerror}") from error
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from error


def given(flag: str, text: str) -> str:
    """The value of a flag that must have one.

    Raises:
        ConfigurationError: it is empty.
    """
    if not text.strip():
        raise ConfigurationError(f"{flag} must not be empty")
    return text.strip()


def _positive(flag: str, number: int, *, zero: bool = False) -> None:
    if number < 0 or (number == 0 and not zero):
        raise ConfigurationError(f"{flag} {number}: must be {'0 or more' if zero else '1 or more'}")
