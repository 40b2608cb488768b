"""The server's own certificate authority, its certificate, and kubeconfig files.

Keys are ECDSA P-256, files with keys are 0600. Certificates are made anew when they are about to
expire or do not name the address the server listens on; the CA stays.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hypercobalt.errors import ConfigurationError

CA_DAYS, LEAF_DAYS, RENEW_DAYS = 3650, 365, 30
SERVICE_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Pki:
    """What TLS needs: file names for the server, PEM for the client."""

    ca_file: Path
    server_certificate: Path
    server_key: Path
    ca: bytes
    admin: Pair


def prepare(directory: Path, address: str) -> Pki:
    """Load or make the CA, the server's certificate for `address`, and an administrator's.

    Raises:
        ConfigurationError: a file cannot be read or written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        ca = _load(directory, "ca") or _store(directory, "ca", _make_ca())
        hosts = server_names(address)
        server = _current(_load(directory, "server"), hosts)
        if server is None:
            server = _store(directory, "server", _make_server(ca, hosts))
        admin = _current(_load(directory, "admin"), ())
        if admin is None:
            pair = make_client(ca, "kubernetes-admin", ("system:masters",))
            admin = _store(directory, "admin", pair)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"certificates in {directory} cannot be used: {error}; remove the folder to make new ones"
        ) from error
    return Pki(
        directory / "ca.crt",
        directory / "server.crt",
        directory / "server.key",
        ca.certificate,
        admin,
    )


def server_names(address: str) -> tuple[str, ...]:
    found = dict.fromkeys((*SERVICE_NAMES, socket.gethostname(), "127.0.0.1", "::1"))
    if address not in ("0.0.0.0", "::", ""):  # noqa: S104  # compared, not bound
        found[address] = None
    return tuple(found)


def _load(directory: Path, name: str) -> Pair | None:
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    if not (certificate.exists() and key.exists()):
        return None
    return Pair(certificate.read_bytes(), key.read_bytes())


def _store(directory: Path, name: str, pair: Pair) -> Pair:
    write_secret(directory / f"{name}.key", pair.key)
    (directory / f"{name}.crt").write_bytes(pair.certificate)
    return pair


def write_secret(path: Path, data: bytes) -> None:
    """Replace a file at once, readable by its owner only from the first byte on."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    temporary.replace(path)


def _current(pair: Pair | None, hosts: Sequence[str]) -> Pair | None:
    if pair is None:
        return None
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    if certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=RENEW_DAYS):
        return None
    if not hosts:
        return pair
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    known = {*names.get_values_for_type(x509.DNSName)}
    known |= {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}
    return pair if set(hosts) <= known else None


def _make_ca() -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("cobalt-apiserver-ca")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, name, key, CA_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    return Pair(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def _make_server(ca: Pair, hosts: Sequence[str]) -> Pair:
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    return _make_leaf(ca, _name("cobalt-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, names)


def make_client(ca: Pair, user: str, groups: Sequence[str]) -> Pair:
    """A client certificate that makes its bearer `user` in `groups`."""
    return _make_leaf(ca, _name(user, *groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)


def _make_leaf(
    ca: Pair,
    subject: x509.Name,
    purpose: x509.ObjectIdentifier,
    names: x509.SubjectAlternativeName | None,
) -> Pair:
    issuer = x509.load_pem_x509_certificate(ca.certificate)
    issuer_key = serialization.load_pem_private_key(ca.key, None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise ValueError("ca.key is not an EC key")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject, issuer.subject, key, LEAF_DAYS)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(authority, critical=False)
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return Pair(_pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(identifier, critical=False)
    )


def _name(common: str, *organizations: str) -> x509.Name:
    listed = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*listed, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def kubeconfig(server: str, ca: bytes, client: Pair) -> bytes:
    """A kubeconfig with everything in it, for kubectl and for our own processes."""

    def packed(data: bytes) -> str:
        return base64.b64encode(data).decode()

    name = "cobalt"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server, "certificate-authority-data": packed(ca)},
            }
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate-data": packed(client.certificate),
                    "client-key-data": packed(client.key),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False).encode()
