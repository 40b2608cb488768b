"""Certificates and their folders: names, purposes, renewal, damage."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hypercobalt.errors import ConfigurationError
from hypercobalt.pki import certificates, files
from hypercobalt.pki.files import CertificateRecord


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pki")
    certificates.make(directory, files.server_names("10.0.0.9"))
    return directory


def certificate(directory: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((directory / f"{name}.crt").read_bytes())


def test_the_server_is_known_by_all_its_names(made: Path) -> None:
    names = certificate(made, "server").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert "localhost" in names.value.get_values_for_type(x509.DNSName)
    addresses = names.value.get_values_for_type(x509.IPAddress)
    assert {ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("10.0.0.9")} <= {*addresses}


@pytest.mark.parametrize(
    ("name", "purpose"),
    [("server", ExtendedKeyUsageOID.SERVER_AUTH), ("admin", ExtendedKeyUsageOID.CLIENT_AUTH)],
)
def test_certificates_are_good_for_one_thing_and_signed(
    made: Path, name: str, purpose: x509.ObjectIdentifier
) -> None:
    leaf, authority = certificate(made, name), certificate(made, "ca")
    leaf.verify_directly_issued_by(authority)
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [purpose]
    lifetime = leaf.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=300) < lifetime < timedelta(days=400)


def test_the_administrator_is_a_master(made: Path) -> None:
    subject = certificate(made, "admin").subject
    (group,) = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert group.value == "system:masters"


def test_keys_are_for_their_owner_only(made: Path) -> None:
    for name in ("ca", "server", "admin"):
        assert (made / f"{name}.key").stat().st_mode & 0o777 == 0o600


def test_a_new_set_keeps_the_authority(tmp_path: Path) -> None:
    certificates.make(tmp_path, ("a",))
    before = certificate(tmp_path, "ca"), certificate(tmp_path, "server")
    certificates.make(tmp_path, ("a", "b"))
    after = certificate(tmp_path, "ca"), certificate(tmp_path, "server")
    assert after[0] == before[0]
    assert after[1] != before[1]


def record(directory: Path, expires: timedelta, *hosts: str) -> None:
    data = CertificateRecord(datetime.now(UTC) + expires, hosts)
    (directory / "record.json").write_bytes(msgspec.json.encode(data))


def test_making_certificates_costs_the_server_no_memory(tmp_path: Path) -> None:
    made = tmp_path / "pki"
    program = (
        "import sys; from pathlib import Path; from hypercobalt import pki;"
        "pki.prepare(Path(sys.argv[1]), '127.0.0.1'); sys.exit('cryptography' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, made], check=True)
    assert files.prepare(made, "127.0.0.1").ca == (made / "ca.crt").read_bytes()


@pytest.mark.parametrize(
    ("days", "hosts", "current"),
    [
        pytest.param(365, ("a", "b"), True, id="fresh"),
        pytest.param(200, ("a", "b"), True, id="of-some-age"),
        pytest.param(100, ("a", "b"), False, id="half-their-life-is-over"),
        pytest.param(-1, ("a", "b"), False, id="expired"),
        pytest.param(365, ("b",), False, id="a-host-was-added"),
    ],
)
def test_certificates_are_renewed_when_needed(
    tmp_path: Path, days: int, hosts: tuple[str, ...], *, current: bool
) -> None:
    for name in ("ca", "server", "admin"):
        for end in ("crt", "key"):
            (tmp_path / f"{name}.{end}").touch()
    record(tmp_path, timedelta(days=days), *hosts)
    assert files._is_current(tmp_path, ("a",)) is current


@pytest.mark.parametrize("damage", ["server.key", "ca.crt", "record.json"])
def test_a_missing_file_is_noticed(made: Path, tmp_path: Path, damage: str) -> None:
    for file in made.iterdir():
        if file.name != damage:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert not files._is_current(tmp_path, ("localhost",))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"expires":"x","hosts":[]}', b"\xff"])
def test_a_broken_record_is_no_record(made: Path, tmp_path: Path, data: bytes) -> None:
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "record.json").write_bytes(data)
    assert not files._is_current(tmp_path, ("localhost",))


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"certificates in .* cannot be made"):
        files.prepare(tmp_path / "file" / "pki", "127.0.0.1")


def test_a_damaged_authority_is_a_clear_error(made: Path, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes((made / "ca.crt").read_bytes())
    (tmp_path / "ca.key").write_bytes(b"damaged")
    with pytest.raises(ConfigurationError, match=r"certificates in .* cannot be made"):
        files.prepare(tmp_path, "127.0.0.1")


def test_a_secret_is_replaced_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("old")
    path.chmod(0o644)
    files.write_secret(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
