"""Make the certificate authority, the server's certificate and an administrator's.

Keys are ECDSA P-256, which are made in no time. As a program: DIRECTORY HOST....
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hypercobalt.pki.files import LIFETIME, CertificateRecord, Pair, load, store

CA_LIFETIME = timedelta(days=3650)


def make(directory: Path, hosts: Sequence[str]) -> None:
    """Make new leaf certificates in `directory`, and a CA where there is none.

    Raises:
        OSError, TypeError, ValueError: a file cannot be read or written, or is not what we wrote.
    """
    try:
        ca = load(directory, "ca")
    except FileNotFoundError:
        ca = store(directory, "ca", make_ca("cobalt-apiserver-ca"))
    store(directory, "server", _make_server(ca, hosts))
    store(directory, "admin", make_client(ca, "kubernetes-admin", ("system:masters",)))
    expires = datetime.now(UTC) + LIFETIME
    record = CertificateRecord(expires, tuple(hosts))
    (directory / "record.json").write_bytes(msgspec.json.encode(record))


def make_ca(common_name: str) -> Pair:
    """A certificate authority that signs leaf certificates only."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
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
    builder = _builder(name, name, key, CA_LIFETIME)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    return Pair(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def _make_server(ca: Pair, hosts: Sequence[str]) -> Pair:
    return _make_leaf(ca, _name("cobalt-apiserver"), (ExtendedKeyUsageOID.SERVER_AUTH,), hosts)


def make_peer(ca: Pair, name: str, hosts: Sequence[str]) -> Pair:
    """A certificate for one that both serves at `hosts` and connects to its like."""
    purposes = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    return _make_leaf(ca, _name(name), purposes, hosts)


def make_client(ca: Pair, user: str, groups: Sequence[str]) -> Pair:
    """A client certificate that makes its bearer `user` in `groups`."""
    return _make_leaf(ca, _name(user, *groups), (ExtendedKeyUsageOID.CLIENT_AUTH,), ())


def _make_leaf(
    ca: Pair,
    subject: x509.Name,
    purposes: Sequence[x509.ObjectIdentifier],
    hosts: Sequence[str],
) -> Pair:
    issuer = x509.load_pem_x509_certificate(ca.certificate)
    issuer_key = serialization.load_pem_private_key(ca.key, None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise TypeError("ca.key is not an EC key")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject, issuer.subject, key, LIFETIME)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(authority, critical=False)
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return Pair(_pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: timedelta
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
        .not_valid_after(now + lifetime)
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


if __name__ == "__main__":
    try:
        make(Path(sys.argv[1]), sys.argv[2:])
    except (OSError, TypeError, ValueError) as error:
        sys.exit(str(error))
