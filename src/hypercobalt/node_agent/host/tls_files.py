"""Where libvirt, QEMU and Cloud Hypervisor look for their certificate, and how they load it.

Source: kvm-node-agent, internal/certificates (paths, links) and internal/controller (units);
libvirt, "TLS certificates".
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hypercobalt.adapters.host.port import HostError, Units
from hypercobalt.agent.certificates.files import CA, CERTIFICATE, KEY, Layout
from hypercobalt.agent.certificates.install import ConditionBoard, Installer
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.logs import get_logger

log = get_logger(__name__)

UPDATE_UNIT: Final = "virt-admin-server-update-tls.service"
LIBVIRT_UNIT: Final = "libvirtd.service"


def layout(root: Path) -> Layout:
    """The files below the directory for certificates."""
    return Layout(
        root,
        files={
            CA: ("CA/cacert.pem", "qemu/ca-cert.pem", "ch/ca-cert.pem"),
            CERTIFICATE: ("libvirt/servercert.pem", "qemu/server-cert.pem", "ch/server-cert.pem"),
            KEY: ("libvirt/private/serverkey.pem", "qemu/server-key.pem", "ch/server-key.pem"),
        },
        links={
            "libvirt/clientcert.pem": "servercert.pem",
            "qemu/client-cert.pem": "server-cert.pem",
            "ch/client-cert.pem": "server-cert.pem",
            "libvirt/private/clientkey.pem": "serverkey.pem",
            "qemu/client-key.pem": "server-key.pem",
            "ch/client-key.pem": "server-key.pem",
        },
        private=frozenset({"libvirt/private"}),
        mark="CA/.installed",
        pending="libvirt/private/.pending-request.json",
    )


def installer(root: Path, units: Units, board: ConditionBoard, ca: Path | None = None) -> Installer:
    """Installs certificates for libvirt and reports `TLSCertificateInstalled`.

    Args:
        root: directory for certificates.
        units: of the host.
        board: takes the condition.
        ca: the administrator's file with the CA, if there is one.
    """

    async def load() -> None:
        """Run a unit of the host, or else restart libvirtd, which disturbs no guest."""
        try:
            await units.start(UPDATE_UNIT)
        except HostError as error:
            log.warning("certificate_not_loaded", unit=UPDATE_UNIT, error=str(error))
            try:
                await units.restart(LIBVIRT_UNIT)
            except HostError as worse:
                raise HostError(f"{error}; {worse}") from worse

    condition = HypervisorConditionType.TLS_CERTIFICATE_INSTALLED
    return Installer(layout(root), load, board, condition, ca)
