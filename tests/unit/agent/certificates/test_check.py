"""Which certificates are this host's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.authority import BOTH, DAY, NOW, Authority, Key, pem

from hypercobalt.agent.certificates.check import CertificateFilesError, check

NAMES = ("kvm-a", "192.0.2.1")


def key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


ROOT, OTHER = Authority("root"), Authority("other")
BETWEEN = Authority("between", ROOT)
KEY, OTHER_KEY = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))


@pytest.fixture
def tried(tmp_path: Path) -> Callable[..., object]:
    def try_out(certificate: bytes, ca: bytes = pem(ROOT.certificate), key: Key = KEY) -> object:
        for name, content in (("ca", ca), ("crt", certificate), ("key", key_pem(key))):
            (tmp_path / name).write_bytes(content)
        return check(tmp_path / "ca", tmp_path / "crt", tmp_path / "key", NAMES)

    return try_out


@pytest.mark.parametrize(
    ("certificate", "ca"),
    [
        (ROOT.issue(KEY), pem(ROOT.certificate)),
        (ROOT.issue(KEY), pem(OTHER.certificate) + pem(ROOT.certificate)),
        (BETWEEN.issue(KEY) + pem(BETWEEN.certificate), pem(ROOT.certificate)),
        (BETWEEN.issue(KEY), pem(BETWEEN.certificate)),
        (ROOT.issue(KEY, names=("kvm-a", "kvm-a.example.org")), pem(ROOT.certificate)),
    ],
    ids=["by the root", "one of two roots", "a chain", "a CA between is trusted", "more names"],
)
def test_certificate_of_this_host_is_taken(
    tried: Callable[..., object], certificate: bytes, ca: bytes
) -> None:
    found = tried(certificate, ca)

    assert (found.not_before, found.not_after) == (NOW - DAY, NOW + DAY)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("certificate", "why"),
    [
        pytest.param(OTHER.issue(KEY), "issuer", id="of another CA"),
        pytest.param(BETWEEN.issue(KEY), "issuer", id="without the CA between"),
        pytest.param(ROOT.issue(KEY, ends=NOW - timedelta(hours=1)), "expired", id="expired"),
        pytest.param(
            ROOT.issue(KEY, begins=NOW + timedelta(hours=1)), "not yet valid", id="not valid yet"
        ),
        pytest.param(ROOT.issue(KEY, names=("kvm-b",)), "kvm-a", id="of another host"),
        pytest.param(ROOT.issue(KEY, names=("*.kvm-a",)), "kvm-a", id="a wildcard"),
        pytest.param(ROOT.issue(KEY, addresses=()), "192.0.2.1", id="without its address"),
        pytest.param(
            ROOT.issue(KEY, addresses=("192.0.2.2",)), "192.0.2.1", id="with another address"
        ),
        pytest.param(ROOT.issue(KEY, usages=BOTH[:1]), "purpose", id="not for clients"),
        pytest.param(ROOT.issue(KEY, usages=BOTH[1:]), "purpose", id="not for servers"),
        pytest.param(ROOT.issue(OTHER_KEY), "do not fit together", id="of another key"),
        pytest.param(b"", "PEM", id="empty"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\nx", "PEM", id="half a certificate"),
    ],
)
def test_certificate_that_is_not_of_this_host_is_refused(
    tried: Callable[..., object], certificate: bytes, why: str
) -> None:
    with pytest.raises(CertificateFilesError, match=why):
        tried(certificate)


def test_text_that_is_no_ca_is_refused(tried: Callable[..., object]) -> None:
    with pytest.raises(CertificateFilesError, match="CA"):
        tried(ROOT.issue(KEY), b"no certificate")
