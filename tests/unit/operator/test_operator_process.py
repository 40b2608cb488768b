"""What the command line hands on to the operator's process, and what that does not load."""

from __future__ import annotations

import logging
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from hypercobalt.adapters.fencing.devices import DeviceTemplate, Identity
from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.api.address import Address
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.nova.settings import NovaSettings, SmokeSettings
from hypercobalt.ha.host_failure.guard import GateLimits
from hypercobalt.launch import decode_settings, encode_settings
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.eviction.model.policy import Doubt, Policy
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.settings import OperatorOptions, OperatorSettings
from hypercobalt.operator.shared.ha_mode import HaMode

HOSTS = {f"kvm-{number:05d}": {"ip": f"2001:db8::{number:x}"} for number in range(4000)}
DEVICE = DeviceTemplate("bmc", "fence_redfish", hosts=HOSTS, identity=Identity.REQUIRED)
SETTINGS = OperatorSettings(
    options=OperatorOptions(
        ("monsoon3", "ä"),
        Issuing("monsoon3", "nova", "ClusterIssuer", CertificateSource.REQUEST),
        lifecycle=LifecycleSettings(
            ha=HaMode.INTERNAL, retry_pause=timedelta(seconds=90, microseconds=1)
        ),
        eviction=Policy(doubt=Doubt.STOP, longest=timedelta(days=40)),
        ha=HaSettings(limits=GateLimits(nodes=3), domain_labels=()),
        fence_devices=(DEVICE,),
    ),
    compute="direct",
    direct=DirectSettings(allowed=Allowed(("/var/lib/nova",), formats=frozenset({"raw"}))),
    nova=NovaSettings(
        SmokeSettings(network="none"),
        evacuate_local_disks=True,
        live_migrate_devices=False,
        service_down_time=timedelta(seconds=90),
    ),
    kubeconfig=Path("/etc/kube config"),
    leader_elect=True,
    metrics=Address("::1", 0),
    metrics_secure=True,
    metrics_accept_api_server_tokens=True,
    metrics_certificate=3,
    health=None,
    contract=Address("", 8090),
    contract_secure=False,
    contract_files=Path("/etc/ha service"),
    log_level=logging.DEBUG,
    log_text=None,
)


def test_all_settings_arrive_longer_than_an_argument_may_be() -> None:
    data = encode_settings(SETTINGS)
    assert len(data) > 128 * 1024
    assert decode_settings(data, OperatorSettings) == SETTINGS


def test_process_carries_neither_flags_nor_certificates_nor_proxies() -> None:
    code = (
        "import sys; import hypercobalt.operator.__main__, hypercobalt.compute.nova.service;"
        "print(sorted({'cyclopts', 'cryptography', 'openstack.connection'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
