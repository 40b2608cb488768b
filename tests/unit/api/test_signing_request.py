"""The one form of a request for a host's certificate, and everything that is another."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import AttributeOID, ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.api.host_certificate import HostNames
from hypercobalt.api.signing_request import LONGEST, SigningRequestError, read, write

KEY = ec.generate_private_key(ec.SECP256R1())
NAMES = HostNames("kvm-a", ("192.0.2.1", "2001:db8::1"))
GOOD = write(NAMES, KEY)
SHOWN: tuple[x509.GeneralName, ...] = (
    x509.DNSName("kvm-a"),
    *(x509.IPAddress(ipaddress.ip_address(address)) for address in NAMES.addresses),
)
OWN = ((NameOID.ORGANIZATION_NAME, "nova"), (NameOID.COMMON_NAME, "kvm-a"))
Builder = x509.CertificateSigningRequestBuilder
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | dsa.DSAPrivateKey


def builder(
    *more: x509.GeneralName,
    subject: tuple[tuple[x509.ObjectIdentifier, str], ...] = OWN,
    shown: tuple[x509.GeneralName, ...] = SHOWN,
    critical: bool = False,
) -> Builder:
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
    names = x509.SubjectAlternativeName([*shown, *more])
    return Builder().subject_name(name).add_extension(names, critical=critical)


def pem(made: Builder, key: Key = KEY) -> bytes:
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def also(extension: x509.ExtensionType) -> bytes:
    return pem(builder().add_extension(extension, critical=True))


def wrapped(der: bytes) -> bytes:
    """PEM around any bytes."""
    text = base64.b64encode(der)
    lines = b"\n".join(text[start : start + 64] for start in range(0, len(text), 64))
    label = b"CERTIFICATE REQUEST-----\n"
    return b"-----BEGIN " + label + lines + b"\n-----END " + label


def der(request: bytes) -> bytes:
    return x509.load_pem_x509_csr(request).public_bytes(Encoding.DER)


def forged() -> bytes:
    """A request over our key with the signature of another key."""
    mine = x509.load_pem_x509_csr(GOOD).signature
    theirs = b""
    while len(theirs) != len(mine):  # it varies by two bytes
        other = write(NAMES, ec.generate_private_key(ec.SECP256R1()))
        theirs = x509.load_pem_x509_csr(other).signature
    return wrapped(der(GOOD).replace(mine, theirs))


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        HostNames("kvm-a"),
        HostNames(f"{'long.' * 20}example.org", ("192.0.2.1",)),
        HostNames("kvm-a", tuple(f"2001:db8::{number:x}" for number in range(1, 65))),
    ],
)
def test_request_that_agents_write_is_read(names: HostNames) -> None:
    written = write(names, ec.generate_private_key(ec.SECP256R1()))
    assert read(written) == names
    assert len(written) < LONGEST / 2


def test_helpers_of_this_test_write_the_same() -> None:
    """Else the refusals below would prove nothing."""
    assert read(pem(builder())) == NAMES
    assert wrapped(x509.load_pem_x509_csr(GOOD).public_bytes(Encoding.DER)) == GOOD


USAGE = x509.KeyUsage(
    **dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    ),
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
HOSTILE: dict[str, Callable[[], bytes]] = {
    "another host's name": lambda: pem(builder(x509.DNSName("kvm-b"))),
    "a wildcard": lambda: pem(builder(x509.DNSName("*"))),
    "a URI": lambda: pem(builder(x509.UniformResourceIdentifier("qemu+tls://kvm-b/system"))),
    "a mail address": lambda: pem(builder(x509.RFC822Name("root@kvm-b"))),
    "a directory name": lambda: pem(builder(x509.DirectoryName(x509.Name([])))),
    "another type of name": lambda: pem(builder(x509.OtherName(NameOID.USER_ID, b"\x0c\x05kvm-b"))),
    "a common name of another": lambda: pem(
        builder(subject=(OWN[0], (NameOID.COMMON_NAME, "kvm-b")))
    ),
    "two common names": lambda: pem(builder(subject=(*OWN, (NameOID.COMMON_NAME, "kvm-b")))),
    "a group of Kubernetes": lambda: pem(
        builder(subject=((NameOID.ORGANIZATION_NAME, "system:masters"), OWN[1]))
    ),
    "a second organization": lambda: pem(
        builder(subject=(*OWN, (NameOID.ORGANIZATION_NAME, "system:masters")))
    ),
    "no subject": lambda: pem(builder(subject=())),
    "a CA": lambda: also(x509.BasicConstraints(ca=True, path_length=None)),
    "the right to sign certificates": lambda: also(USAGE),
    "any purpose": lambda: also(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE])
    ),
    "an unknown extension": lambda: also(
        x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    ),
    "critical names": lambda: pem(builder(critical=True)),
    "no names": lambda: pem(builder(shown=())),
    "no extension": lambda: pem(Builder().subject_name(x509.Name([]))),
    "an address as a name": lambda: pem(builder(x509.DNSName("192.0.2.9"))),
    "a network as an address": lambda: pem(
        builder(x509.IPAddress(ipaddress.ip_network("192.0.2.0/24")))
    ),
    "a challenge": lambda: pem(builder().add_attribute(AttributeOID.CHALLENGE_PASSWORD, b"x")),
    "a second list of extensions": lambda: pem(
        builder().add_attribute(x509.ObjectIdentifier("1.2.840.113549.1.9.14"), b"x")
    ),
    "an RSA key": lambda: pem(builder(), rsa.generate_private_key(65537, 2048)),
    "a DSA key": lambda: pem(builder(), dsa.generate_private_key(2048)),
    "an Ed25519 key": lambda: (
        builder().sign(ed25519.Ed25519PrivateKey.generate(), None).public_bytes(Encoding.PEM)
    ),
    "another curve": lambda: pem(builder(), ec.generate_private_key(ec.SECP384R1())),
    "another curve of that size": lambda: pem(builder(), ec.generate_private_key(ec.SECP256K1())),
    "two requests": lambda: GOOD + pem(builder(x509.DNSName("kvm-b"))),
    "the other request first": lambda: pem(builder(x509.DNSName("kvm-b"))) + GOOD,
    "text before": lambda: b"kvm-b\n" + GOOD,
    "text behind": lambda: GOOD + b"kvm-b\n",
    "a header": lambda: GOOD.replace(b"REQUEST-----\n", b"REQUEST-----\nHost: kvm-b\n\n", 1),
    "lines of DOS": lambda: GOOD.replace(b"\n", b"\r\n"),
    "the old label": lambda: GOOD.replace(b"CERTIFICATE", b"NEW CERTIFICATE"),
    "bytes behind the structure": lambda: wrapped(der(GOOD) + b"\x05\x00"),
    "no PEM": lambda: der(GOOD),
    "nothing": lambda: b"",
    "noise": lambda: b"\xff" * 64,
    "half of it": lambda: GOOD[: len(GOOD) // 2],
    "a signature by another key": forged,
    "64 MiB": lambda: GOOD * 150_000,
    "64 nested structures": lambda: wrapped(b"\x30\x80" * 64),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_request_with_any_other_content_is_refused(what: str) -> None:
    with pytest.raises(SigningRequestError) as raised:
        read(HOSTILE[what]())
    assert len(str(raised.value)) < 200


@given(st.data())
def test_changed_bytes_are_refused_or_change_nothing_that_counts(data: st.DataObject) -> None:
    """Each field of the structure lengthened, cut, replaced and put twice, by chance."""
    made = bytearray(der(GOOD))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(made)))
        end = data.draw(st.integers(start, min(len(made), start + 8)))
        made[start:end] = data.draw(st.binary(max_size=8))
    try:
        found = read(wrapped(bytes(made)))
    except SigningRequestError:
        return
    assert found == NAMES


@given(st.binary(max_size=300))
def test_noise_is_refused(noise: bytes) -> None:
    for request in (noise, wrapped(noise)):
        with pytest.raises(SigningRequestError):
            read(request)
