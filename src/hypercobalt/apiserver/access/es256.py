"""A key that signs with ES256: ECDSA on the curve P-256 over SHA-256.

Apart from `jwt`, which imports it at the first token: its library takes 0.1 s and 9 MiB.

Source: RFC 7518 section 3.4.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from hypercobalt.pki import write_secret

_SIZE = 32  # bytes of each number on P-256
_ALGORITHM = ec.ECDSA(hashes.SHA256())


class SigningKey:
    """A private key.

    Args:
        private: on P-256.
    """

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self._private = private

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """The key in a file, which is made when it is missing.

        Raises:
            OSError, TypeError, ValueError: it cannot be read or written, or is not a key on P-256.
        """
        try:
            found = serialization.load_pem_private_key(path.read_bytes(), None)
        except FileNotFoundError:
            found = ec.generate_private_key(ec.SECP256R1())
            pem, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
            write_secret(path, found.private_bytes(pem, kind, serialization.NoEncryption()))
        if not isinstance(found, ec.EllipticCurvePrivateKey) or found.key_size != 8 * _SIZE:
            raise TypeError(f"{path} is not a key on P-256")
        return cls(found)

    def sign(self, data: bytes) -> bytes:
        """The signature: both of its numbers, 32 bytes each."""
        numbers = utils.decode_dss_signature(self._private.sign(data, _ALGORITHM))
        return b"".join(number.to_bytes(_SIZE, "big") for number in numbers)

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        """Whether a signature is this key's."""
        if len(signature) != 2 * _SIZE:
            return False
        halves = signature[:_SIZE], signature[_SIZE:]
        packed = utils.encode_dss_signature(*(int.from_bytes(half, "big") for half in halves))
        try:
            self._private.public_key().verify(packed, data, _ALGORITHM)
        except InvalidSignature:
            return False
        return True

    @property
    def point(self) -> tuple[bytes, bytes]:
        """Both coordinates of the public key, 32 bytes each."""
        numbers = self._private.public_key().public_numbers()
        return numbers.x.to_bytes(_SIZE, "big"), numbers.y.to_bytes(_SIZE, "big")

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the public key."""
        der, info = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        return hashlib.sha256(self._private.public_key().public_bytes(der, info)).digest()
