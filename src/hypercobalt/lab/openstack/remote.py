"""ssh between computes: how Nova copies a stopped server's disks to another host.

An OpenSSH server of its own in each host, on the lab's network only, with a key that all of them
have: root of one is root of all, as Nova wants it.

Source: sshd_config(5), ssh_config(5); Nova's `remote_filesystem_transport`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hypercobalt.lab import services
from hypercobalt.lab.host import Host

SERVICE: Final = "nova-sshd.service"
_FOLDER: Final = "/etc/nova/ssh"
_UNIT: Final = f"""\
[Unit]
Description=OpenSSH server for Nova
After=network.target

[Service]
ExecStart=/usr/sbin/sshd -D -e -f {_FOLDER}/sshd_config
RuntimeDirectory=sshd
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""
_SERVER: Final = f"""\
ListenAddress {{address}}
HostKey {_FOLDER}/key
AuthorizedKeysFile {_FOLDER}/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
"""
_CLIENT: Final = f"""\
Host *
  IdentityFile {_FOLDER}/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


@dataclass(frozen=True, slots=True)
class SSHKey:
    """A pair of keys, as OpenSSH writes them."""

    private: bytes
    public: bytes

    @classmethod
    def new(cls) -> Self:
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        return cls(private, public)


async def install(host: Host, key: SSHKey) -> None:
    """Let a host be reached by the others, and reach them; it is so from each boot on.

    Raises:
        LabError: the host is off, or the server does not start.
    """
    write = host.disk.write
    write(f"{_FOLDER}/key", key.private, mode=0o600)
    write(f"{_FOLDER}/authorized_keys", key.public + b"\n", mode=0o600)
    write(f"{_FOLDER}/sshd_config", _SERVER.format(address=host.address))
    write("/etc/ssh/ssh_config", _CLIENT)
    await services.install(host, {SERVICE: _UNIT})
