"""Files that cannot be used for TLS are named, with the cause."""

from __future__ import annotations

import os
import shutil
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from hypercobalt.adapters.ovs.model import TlsFiles
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.tls import LARGEST, client_context

FILES = TlsFiles("/pki/key.pem", "/pki/cert.pem", "/pki/ca.pem")
LOCKED = """-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGjMF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBAAAAAAAAAAAAAAAAAA
-----END ENCRYPTED PRIVATE KEY-----
"""


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("issued")
    (root / "pki").mkdir()
    authority = trustme.CA()
    certificate = authority.issue_cert("kvm-1")
    certificate.private_key_pem.write_to_path(root / "pki/key.pem")
    certificate.cert_chain_pems[0].write_to_path(root / "pki/cert.pem")
    authority.cert_pem.write_to_path(root / "pki/ca.pem")
    authority.issue_cert("kvm-2").private_key_pem.write_to_path(root / "pki/other.pem")
    (root / "pki/locked.pem").write_text(LOCKED)
    (root / "pki/words.pem").write_text("no certificate")
    return root


def test_server_is_verified_by_its_authority_and_not_by_its_name(issued: Path) -> None:
    context = client_context(FILES, issued)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        (replace(FILES, private_key=""), "private key: none is configured"),
        (replace(FILES, certificate="cert.pem"), "certificate: 'cert.pem' is not an absolute path"),
        (replace(FILES, authority="/gone.pem"), "CA certificate /gone.pem cannot be read: No such"),
        (replace(FILES, private_key="/pki"), "private key /pki is no regular file"),
        (replace(FILES, private_key="/pki/other.pem"), "private key /pki/other.pem: .*MISMATCH"),
        (replace(FILES, private_key="/pki/locked.pem"), "private key /pki/locked.pem: "),
        (
            replace(FILES, certificate="/pki/a\0b"),
            "certificate /pki/a.b cannot be read: .*embedded",
        ),
        (replace(FILES, authority="/pki/words.pem"), "CA certificate /pki/words.pem: "),
    ],
)
def test_file_that_cannot_be_used_is_named(issued: Path, files: TlsFiles, cause: str) -> None:
    with pytest.raises(SwitchError, match=cause) as failed:
        client_context(files, issued)
    assert failed.value.fault is ProducerFault.UNSUPPORTED


def test_key_that_is_not_permitted_is_named(
    issued: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(issued / "pki", tmp_path / "pki")
    opened = Path.open

    def refuse(self: Path, mode: str = "r") -> object:
        """Refuse to open a file, as the kernel does for another user; tests run as root."""
        if self.name == "key.pem":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, mode)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SwitchError, match=r"private key /pki/key.pem cannot be read: Permission"):
        client_context(FILES, tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
def test_file_that_openssl_would_read_without_end_is_refused(
    issued: Path, tmp_path: Path, kind: str
) -> None:
    hostile = tmp_path / "hostile.pem"
    if kind == "pipe":
        os.mkfifo(hostile)
    elif kind == "device":
        hostile.symlink_to("/dev/zero")
    else:
        with hostile.open("wb") as opened:
            opened.truncate(LARGEST + 1)
    (tmp_path / "pki").symlink_to(issued / "pki")
    for files in (
        replace(FILES, private_key="/hostile.pem"),
        replace(FILES, authority="/hostile.pem"),
    ):
        with pytest.raises(SwitchError, match=r"/hostile.pem is no regular file"):
            client_context(files, tmp_path)
