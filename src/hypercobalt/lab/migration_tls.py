"""Certificates by which the hosts' QEMUs encrypt memory and disks of migrations.

An authority of the lab signs them. It is not the API server's, whose certificates identify users.

Source: qemu.conf of libvirt, `migrate_tls_x509_cert_dir`.
"""

from __future__ import annotations

from typing import Final

from hypercobalt import pki
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import Host
from hypercobalt.lab.state import Layout

DIRECTORY: Final = "/etc/pki/qemu"
_CA: Final = f"{DIRECTORY}/ca-cert.pem"


def install(host: Host, layout: Layout) -> None:
    """Give a host its certificate; one that has it already keeps it.

    Raises:
        LabError: a file cannot be read or written.
    """
    try:
        authority = _authority(layout)
    except (OSError, TypeError, ValueError) as error:
        raise LabError(f"certificates in {layout.pki}: {error}") from error
    if host.disk.read(_CA) == authority.certificate:
        return
    from hypercobalt.pki.certificates import make_peer  # noqa: PLC0415 - slow

    own = make_peer(authority, host.name, (host.address, host.name))
    for role in ("server", "client"):
        host.disk.write(f"{DIRECTORY}/{role}-cert.pem", own.certificate)
        host.disk.write(f"{DIRECTORY}/{role}-key.pem", own.key, mode=0o600)
    host.disk.write(_CA, authority.certificate)  # last: then the others are there


def _authority(layout: Layout) -> pki.Pair:
    try:
        return pki.load(layout.pki, "ca")
    except FileNotFoundError:
        from hypercobalt.pki.certificates import make_ca  # noqa: PLC0415 - slow

        layout.pki.mkdir(mode=0o700, exist_ok=True)
        return pki.store(layout.pki, "ca", make_ca("cobalt-lab-migrations"))
