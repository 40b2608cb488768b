"""A certificate authority of a test's own, made by cryptography."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
Key = ec.EllipticCurvePrivateKey


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Authority:
    """A CA, and what it issues."""

    def __init__(self, name: str, issuer: Authority | None = None) -> None:
        self.key, self.subject = ec.generate_private_key(ec.SECP256R1()), named(name)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        signer = issuer or self
        self.certificate = (
            self._builder(signer.subject, self.subject, self.key)
            .add_extension(constraints, critical=True)
            .sign(signer.key, hashes.SHA256())
        )

    @staticmethod
    def _builder(
        issuer: x509.Name,
        subject: x509.Name,
        key: Key,
        begins: datetime = NOW - DAY,
        ends: datetime = NOW + DAY,
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .issuer_name(issuer)
            .subject_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
        )

    def issue(
        self,
        key: Key,
        *,
        names: tuple[str, ...] = ("kvm-a",),
        addresses: tuple[str, ...] = ("192.0.2.1",),
        begins: datetime = NOW - DAY,
        ends: datetime = NOW + DAY,
        usages: tuple[x509.ObjectIdentifier, ...] = BOTH,
    ) -> bytes:
        shown = [
            *(x509.DNSName(name) for name in names),
            *(x509.IPAddress(ip_address(address)) for address in addresses),
        ]
        made = (
            self._builder(self.subject, named("kvm-a"), key, begins, ends)
            .add_extension(x509.SubjectAlternativeName(shown), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return pem(made)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
