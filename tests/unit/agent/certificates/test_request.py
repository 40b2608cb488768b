"""What to do about the certificate of a key that is made on the host."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from msgspec.structs import replace as with_fields

from hypercobalt.agent.certificates import pending
from hypercobalt.agent.certificates.check import Validity
from hypercobalt.agent.certificates.key_maker import KeyOrder, NewKey, make, make_here
from hypercobalt.agent.certificates.pending import Pending
from hypercobalt.agent.certificates.request import (
    AGAIN,
    CertificateFacts,
    CertificateStep,
    RequestSettings,
    Wanted,
    decide,
    request_of,
)
from hypercobalt.api.certificate import (
    CertificateCondition,
    CertificateRequest,
    CertificateRequestStatus,
    IssuerReference,
)
from hypercobalt.api.host_certificate import AGENT, HostNames

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
WANTED = Wanted(HostNames("kvm-a", ("192.0.2.1",)), IssuerReference("nova-ca", "Issuer"))
SETTINGS = RequestSettings("libvirt-kvm-a", "agents", AGENT)
PENDING = Pending(WANTED.digest, b"a request", b"a key")
FRESH, OLD = Validity(NOW - DAY, NOW + 5 * DAY), Validity(NOW - 5 * DAY, NOW + DAY)
NOTHING = CertificateFacts(
    WANTED.digest, None, intact=True, in_use=False, pending=None, request=None, now=NOW
)


def stored(
    *conditions: tuple[str, str, str], certificate: bytes = b"", failed: datetime | None = None
) -> CertificateRequest:
    made = request_of(WANTED, PENDING, SETTINGS)
    found = tuple(
        CertificateCondition(type_, status, reason, "as it is", NOW - timedelta(minutes=1))
        for type_, status, reason in conditions
    )
    status = CertificateRequestStatus(found, certificate, b"", failed)
    meta = with_fields(made.metadata, creationTimestamp=NOW - timedelta(minutes=2))
    return with_fields(made, metadata=meta, status=status)


APPROVED, ISSUED = ("Approved", "True", "Own"), ("Ready", "True", "Issued")
WAITING = replace(NOTHING, pending=PENDING)


@pytest.mark.parametrize(
    ("facts", "step", "reason", "message"),
    [
        pytest.param(NOTHING, CertificateStep.MAKE, None, "", id="nothing is there"),
        pytest.param(
            replace(NOTHING, installed=FRESH),
            CertificateStep.REST,
            "Ready",
            "good until",
            id="a good one",
        ),
        pytest.param(
            replace(NOTHING, installed=FRESH, intact=False),
            CertificateStep.MEND,
            None,
            "",
            id="files changed",
        ),
        pytest.param(
            replace(NOTHING, installed=OLD),
            CertificateStep.MAKE,
            None,
            "",
            id="two thirds of its life",
        ),
        pytest.param(WAITING, CertificateStep.REQUEST, None, "", id="a key without a request"),
        pytest.param(
            replace(WAITING, wanted="another address"),
            CertificateStep.REMAKE,
            None,
            "",
            id="other names",
        ),
        pytest.param(
            replace(WAITING, in_use=True, installed=FRESH),
            CertificateStep.CLEAN_UP,
            None,
            "",
            id="in use",
        ),
        pytest.param(
            replace(WAITING, in_use=True, installed=FRESH, wanted="another address"),
            CertificateStep.CLEAN_UP,
            None,
            "",
            id="in use, with other names",
        ),
        pytest.param(
            replace(WAITING, in_use=True, installed=OLD, request=stored()),
            CertificateStep.CLEAN_UP,
            None,
            "",
            id="in use, and old when it was issued",
        ),
        pytest.param(
            replace(WAITING, in_use=True, installed=OLD),
            CertificateStep.REQUEST,
            None,
            "",
            id="the installed key's renewal without a request",
        ),
        pytest.param(
            replace(WAITING, installed=OLD, request=stored(APPROVED, ISSUED, certificate=b"c")),
            CertificateStep.INSTALL,
            None,
            "",
            id="the renewal is issued",
        ),
        pytest.param(
            replace(WAITING, request=stored()),
            CertificateStep.WAIT,
            "RequestPending",
            "waits for approval",
            id="not approved yet",
        ),
        pytest.param(
            replace(WAITING, request=stored(APPROVED, ("Ready", "False", "Pending"))),
            CertificateStep.WAIT,
            "RequestPending",
            "waits for its issuer: as it is",
            id="not issued yet",
        ),
        pytest.param(
            replace(WAITING, request=stored(), installed=OLD),
            CertificateStep.WAIT,
            "Ready",
            "good until 2026-06-02T00:00:00Z; CertificateRequest",
            id="a renewal leaves the condition True",
        ),
        pytest.param(
            replace(
                WAITING, request=stored(APPROVED, ("Ready", "True", "Issued"), certificate=b"c")
            ),
            CertificateStep.INSTALL,
            None,
            "",
            id="issued",
        ),
        pytest.param(
            replace(WAITING, request=stored(("Ready", "True", "Issued"))),
            CertificateStep.WAIT,
            "RequestPending",
            "waits",
            id="ready without a certificate",
        ),
        pytest.param(
            replace(WAITING, request=stored(("Denied", "True", "Policy"))),
            CertificateStep.WAIT,
            "RequestDenied",
            "was denied: as it is",
            id="denied",
        ),
        pytest.param(
            replace(WAITING, request=stored(("Denied", "True", "Policy")), now=NOW + AGAIN),
            CertificateStep.REMAKE,
            None,
            "",
            id="denied a while ago",
        ),
        pytest.param(
            replace(WAITING, request=stored(("InvalidRequest", "True", "x"))),
            CertificateStep.WAIT,
            "RequestFailed",
            "is invalid",
            id="invalid",
        ),
        pytest.param(
            replace(WAITING, request=stored(("Ready", "False", "Failed"), failed=NOW)),
            CertificateStep.WAIT,
            "RequestFailed",
            "failed: as it is",
            id="failed",
        ),
        pytest.param(
            replace(WAITING, request=stored(failed=NOW - AGAIN)),
            CertificateStep.REMAKE,
            None,
            "",
            id="failed a while ago",
        ),
        pytest.param(
            replace(WAITING, pending=with_fields(PENDING, request=b"another"), request=stored()),
            CertificateStep.REMAKE,
            None,
            "",
            id="the object has another request",
        ),
    ],
)
def test_next_step_follows_from_request_and_installed_certificate(
    facts: CertificateFacts, step: CertificateStep, reason: str | None, message: str
) -> None:
    plan = decide(facts)

    assert (plan.step, plan.reason) == (step, reason)
    assert message in plan.message


def test_request_names_its_host_and_has_no_key() -> None:
    made = request_of(WANTED, PENDING, SETTINGS)

    assert made.metadata.name == PENDING.name("libvirt-kvm-a")
    assert made.metadata.name.startswith("libvirt-kvm-a-")
    assert made.spec.request == PENDING.request
    assert made.spec.isCA is False
    assert made.spec.usages == ("digital signature", "server auth", "client auth")
    assert PENDING.key not in json.dumps(repr(made)).encode()


def test_own_addresses_are_parsed_and_sorted() -> None:
    found = HostNames.of("kvm-a", ("2001:DB8::1", "192.0.2.1", "", "127.0.0.1", "10.0.0.1/8"))

    assert found.all == ("kvm-a", "192.0.2.1", "2001:db8::1")


@pytest.mark.parametrize("name", ["kvm-a", "kvm-a." + "x" * 60 + ".example.org"])
async def test_made_key_is_of_the_request_and_the_names_are_its_own(name: str) -> None:
    made = await make(KeyOrder(HostNames(name, ("192.0.2.1", "2001:db8::1"))))

    key, request = load_pem_private_key(made.key, None), x509.load_pem_x509_csr(made.request)
    shown = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert request.public_key() == key.public_key()
    assert request.is_signature_valid
    assert shown.get_values_for_type(x509.DNSName) == [name]
    assert [str(one) for one in shown.get_values_for_type(x509.IPAddress)] == [
        "192.0.2.1",
        "2001:db8::1",
    ]


async def test_request_is_for_the_key_that_the_host_has() -> None:
    first = await make(KeyOrder(HostNames("kvm-a")))

    again = await make(KeyOrder(HostNames("kvm-a", ("192.0.2.1",)), first.key))

    keys = [x509.load_pem_x509_csr(made.request).public_key() for made in (first, again)]
    assert again.key == first.key
    assert keys[0] == keys[1]


def private_key(key: PrivateKeyTypes, password: bytes | None = None) -> bytes:
    hidden = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(b"", id="none"),
        pytest.param(b"half a ke", id="damaged"),
        pytest.param(private_key(rsa.generate_private_key(65537, 2048)), id="RSA, of a Secret"),
        pytest.param(private_key(ec.generate_private_key(ec.SECP384R1())), id="another curve"),
        pytest.param(private_key(ec.generate_private_key(ec.SECP256R1()), b"x"), id="a password"),
    ],
)
def test_key_that_no_request_can_be_for_is_replaced(key: bytes) -> None:
    made = make_here(KeyOrder(HostNames("kvm-a"), key))

    found = load_pem_private_key(made.key, None)
    assert isinstance(found, ec.EllipticCurvePrivateKey)
    assert isinstance(found.curve, ec.SECP256R1)
    assert made.key != key


def test_agent_that_makes_keys_does_not_import_x509() -> None:
    code = (
        "import sys; import hypercobalt.agent.certificates.requester;"
        "print('cryptography.x509' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_pending_key_is_for_its_owner_alone_and_survives(tmp_path: Path) -> None:
    made = make_here(KeyOrder(HostNames("kvm-a")))
    path = tmp_path / "private/.pending"
    kept = Pending(WANTED.digest, made.request, made.key)

    assert pending.load(path) is None
    pending.store(path, PENDING)
    pending.store(path, kept)
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert pending.load(path) == kept
    assert "PRIVATE" not in repr(kept) + repr(NewKey(made.key, made.request))
    file.write_bytes(b"half a fi")
    assert pending.load(path) is None
    pending.discard(path)
    pending.discard(path)
    assert not file.exists()
