"""Certificates of a private authority on the hosts of a lab, for libvirt."""

from __future__ import annotations

from pathlib import Path

import trustme

from hypercobalt.lab.host import Host


async def serve_tls(host: Host, authority: trustme.CA) -> None:
    """Have the host's libvirtd take TLS from clients of an authority, and nothing else."""
    leaf = authority.issue_cert(host.address)
    certificate, key = leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes()
    await _install(
        host,
        {
            "CA/cacert.pem": authority.cert_pem.bytes(),
            "libvirt/servercert.pem": certificate,
            "libvirt/private/serverkey.pem": key,
            "libvirt/clientcert.pem": certificate,
            "libvirt/private/clientkey.pem": key,
        },
    )
    sockets = [f"libvirtd{kind}.socket" for kind in ("", "-ro", "-admin", "-tcp")]
    await host.run("systemctl", "stop", *sockets, "libvirtd.service")
    await host.run("systemctl", "start", "libvirtd-tls.socket", "libvirtd.service")


async def _install(host: Host, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        await host.run("install", "-D", "/dev/stdin", f"/etc/pki/{path}", stdin=content)


def client_files(directory: Path, authority: trustme.CA) -> Path:
    leaf = authority.issue_cert("agent.example.org")
    authority.cert_pem.write_to_path(str(directory / "cacert.pem"))
    leaf.cert_chain_pems[0].write_to_path(str(directory / "clientcert.pem"))
    leaf.private_key_pem.write_to_path(str(directory / "clientkey.pem"))
    return directory
