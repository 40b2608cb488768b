"""What a site without OpenStack says of its hosts and its network."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DirectSettings:
    """How hosts are reached. `{name}` and `{ip}` in a URI stand for a host's own.

    Args:
        control: from the operator to a libvirtd. With TLS, `?pkipath=DIRECTORY` behind it names
            the directory of the client's certificate; else libvirt's own is taken.
        migration: from one host's libvirtd to another's.
        stream: from QEMU to QEMU; "" leaves it to libvirt, which then needs names that resolve.
        tls: QEMU encrypts its streams, by the certificates in the hosts' `/etc/pki/qemu`.
        northbound: OVN's northbound database, `tcp:HOST:PORT` or `unix:PATH`, with commas between
            the servers of a cluster; "" where the network finds out by itself where a guest is.
    """

    control: str = "qemu+tls://{ip}/system"
    migration: str = "qemu+tls://{ip}/system"
    stream: str = "tcp://{ip}"
    tls: bool = False
    northbound: str = ""
