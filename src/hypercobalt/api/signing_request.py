"""The request for a host's certificate, which has one form: PKCS #10 in PEM.

Whoever accepts all that parses can be shown one thing while the issuer's parser finds another. So a
request counts only if it is, to the byte, what `write` makes of the names that were read from it:
no other extension, attribute, subject, key or encoding.

Apart from `host_certificate`, because the library takes 9 MiB, which no node agent shall carry.

Source: RFC 2986; RFC 5280, 4.2.1.6; cert-manager, pkg/util/pki (usages are those of the
CertificateRequest's spec alone).
"""

from __future__ import annotations

import hashlib
import ipaddress
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from hypercobalt.api.host_certificate import HostNames
from hypercobalt.errors import HypercobaltError

LONGEST: Final = 8192  # bytes; a host with 64 addresses has 2 KiB
_LONGEST_COMMON_NAME: Final = 64  # X.520, ub-common-name
_ORGANIZATION: Final = "nova"


class SigningRequestError(HypercobaltError, ValueError):
    """A request that is not in the form of node agents."""


def write(names: HostNames, key: ec.EllipticCurvePrivateKey) -> bytes:
    """The request for a certificate with these names, for a key on curve P-256."""
    return _sign(names, key).public_bytes(Encoding.PEM)


def read(request: bytes) -> HostNames:
    """The names that a request is for; its signature shows that the requester has the key.

    Raises:
        SigningRequestError: `write` would have written something else.
    """
    if len(request) > LONGEST:
        raise SigningRequestError(f"it has {len(request)} bytes, more than {LONGEST}")
    try:
        found = x509.load_pem_x509_csr(request)
        names = _names(found)
        formal = _has_the_form(found, names) and found.public_bytes(Encoding.PEM) == request
        signed = formal and found.is_signature_valid
    except _UNREADABLE as error:
        raise SigningRequestError(f"it cannot be read: {str(error)[:100]!r}") from error
    if not formal:
        raise SigningRequestError("it is not in the form in which node agents write it")
    if not signed:
        raise SigningRequestError("its signature is not by its key")
    return names


def key_digest(request: bytes) -> str:
    """SHA-256 of the public key of a request that `read` has accepted, in hexadecimal digits.

    It is what `openssl pkey -pubin -outform DER | sha256sum` shows.
    """
    key = x509.load_pem_x509_csr(request).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(spki).hexdigest()


_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What the library raises about bytes; it has no common class for it."""


def _sign(names: HostNames, key: ec.EllipticCurvePrivateKey) -> x509.CertificateSigningRequest:
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION)]
    if len(names.name) <= _LONGEST_COMMON_NAME:
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, names.name))
    shown: list[x509.GeneralName] = [x509.DNSName(names.name)]
    shown += [x509.IPAddress(ipaddress.ip_address(address)) for address in names.addresses]
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name(subject))
        .add_extension(x509.SubjectAlternativeName(shown), critical=False)
        .sign(key, hashes.SHA256())
    )


def _names(found: x509.CertificateSigningRequest) -> HostNames:
    shown = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    names = shown.get_values_for_type(x509.DNSName)
    if len(names) != 1:
        raise ValueError(f"{len(names)} DNS names instead of the Node's")
    addresses = shown.get_values_for_type(x509.IPAddress)
    return HostNames(names[0], tuple(str(address) for address in addresses))


def _has_the_form(found: x509.CertificateSigningRequest, names: HostNames) -> bool:
    key = found.public_key()
    if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)):
        return False
    other = ec.generate_private_key(ec.SECP256R1())  # only the owner of theirs could sign with it
    here, there = (_public(one) for one in (other.public_key(), key))
    expected = _sign(names, other).tbs_certrequest_bytes.replace(here, there)
    return found.tbs_certrequest_bytes == expected


def _public(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
