"""Files of a TLS Secret on the host's disk."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import trustme

from hypercobalt.agent.certificates.check import CertificateFilesError
from hypercobalt.agent.certificates.files import File
from hypercobalt.node_agent.host.tls_files import layout


def secret(ca: trustme.CA, host: str = "kvm-a") -> dict[str, bytes]:
    leaf = ca.issue_cert(host)
    return {
        "ca.crt": ca.cert_pem.bytes(),
        "tls.crt": b"".join(blob.bytes() for blob in leaf.cert_chain_pems),
        "tls.key": leaf.private_key_pem.bytes(),
    }


NAMES = ("kvm-a",)
PLACES = layout(Path())
CA_A, CA_B = trustme.CA(), trustme.CA()
DATA = secret(CA_A)
OTHER = secret(CA_B)
ENCRYPTED = b"""-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHjME4GCSqGSIb3DQEFDTBBMCkGCSqGSIb3DQEFDDAcBAjQ5WZxvT2nXgICCAAw
DAYIKoZIhvcNAgkFADAUBggqhkiG9w0DBwQIAAAAAAAAAAAEgZA=
-----END ENCRYPTED PRIVATE KEY-----
"""


def tree(root: Path) -> dict[str, str]:
    """Every path below, with its mode, or what it leads to."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        mode = stat.S_IMODE(path.lstat().st_mode)
        found[name] = f"-> {path.readlink()}" if path.is_symlink() else f"{mode:o}"
    return found


def test_files_links_and_modes_are_libvirts(tmp_path: Path) -> None:
    layout(tmp_path).install(PLACES.plan(DATA), NAMES)

    assert tree(tmp_path) == {
        "CA": "755",
        "CA/cacert.pem": "644",
        "ch": "755",
        "ch/ca-cert.pem": "644",
        "ch/client-cert.pem": "-> server-cert.pem",
        "ch/client-key.pem": "-> server-key.pem",
        "ch/server-cert.pem": "644",
        "ch/server-key.pem": "600",
        "libvirt": "755",
        "libvirt/clientcert.pem": "-> servercert.pem",
        "libvirt/private": "700",
        "libvirt/private/clientkey.pem": "-> serverkey.pem",
        "libvirt/private/serverkey.pem": "600",
        "libvirt/servercert.pem": "644",
        "qemu": "755",
        "qemu/ca-cert.pem": "644",
        "qemu/client-cert.pem": "-> server-cert.pem",
        "qemu/client-key.pem": "-> server-key.pem",
        "qemu/server-cert.pem": "644",
        "qemu/server-key.pem": "600",
    }
    for key, paths in PLACES.files.items():
        assert {(tmp_path / path).read_bytes() for path in paths} == {DATA[key]}
    assert (tmp_path / "libvirt/private/clientkey.pem").read_bytes() == DATA["tls.key"]


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        ({"tls.key"}, "lacks tls.key;"),
        ({"ca.crt", "tls.crt"}, "lacks ca.crt, tls.crt;"),
        (set(DATA), "lacks ca.crt, tls.crt, tls.key;"),
    ],
)
@pytest.mark.parametrize("how", ["absent", "empty"])
def test_missing_keys_are_named(lacking: set[str], named: str, how: str) -> None:
    data = {key: value for key, value in DATA.items() if key not in lacking}
    if how == "empty":
        data |= dict.fromkeys(lacking, b"")

    with pytest.raises(CertificateFilesError, match=named) as raised:
        PLACES.plan(data)
    assert raised.value.reason == "FailedToUpdateTLSCertificate"


@pytest.mark.parametrize(
    "bad",
    [
        DATA | {"tls.key": OTHER["tls.key"]},
        DATA | {"tls.crt": b"nonsense"},
        DATA | {"tls.key": b"\x00\xff"},
        DATA | {"tls.key": ENCRYPTED},
        DATA | {"ca.crt": b"nonsense"},
    ],
    ids=["other key", "no certificate", "no key", "encrypted key", "no ca"],
)
def test_key_that_does_not_fit_its_certificate_changes_no_file(
    tmp_path: Path, bad: dict[str, bytes]
) -> None:
    layout(tmp_path).install(PLACES.plan(OTHER), NAMES)
    before = tree(tmp_path)

    with pytest.raises(CertificateFilesError, match="PEM") as raised:
        layout(tmp_path).install(PLACES.plan(bad), NAMES)

    assert tree(tmp_path) == before
    for key, paths in PLACES.files.items():
        assert {(tmp_path / path).read_bytes() for path in paths} == {OTHER[key]}
    assert "PRIVATE KEY" not in str(raised.value)


def test_a_new_secret_replaces_everything_and_leaves_nothing_behind(tmp_path: Path) -> None:
    layout(tmp_path).install(PLACES.plan(DATA), NAMES)
    before = tree(tmp_path)
    held = (tmp_path / "libvirt/servercert.pem").open("rb")

    layout(tmp_path).install(PLACES.plan(OTHER), NAMES)

    assert tree(tmp_path) == before
    assert (tmp_path / "libvirt/servercert.pem").read_bytes() == OTHER["tls.crt"]
    with held:
        assert held.read() == DATA["tls.crt"]  # a reader of the old file has all of it


@pytest.mark.parametrize("crash_after", range(9))
def test_a_crash_half_way_is_mended(
    tmp_path: Path, crash_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout(tmp_path).install(PLACES.plan(DATA), NAMES)
    layout(tmp_path).mark_loaded(PLACES.plan(DATA))
    renames = 0
    replace = Path.replace

    def crash(self: Path, target: Path) -> Path:
        nonlocal renames
        if renames == crash_after:
            raise KeyboardInterrupt
        renames += 1
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            layout(tmp_path).install(PLACES.plan(OTHER), NAMES)

    assert not layout(tmp_path).is_loaded(PLACES.plan(OTHER))
    (tmp_path / "qemu/.server-key.pem.x7").write_bytes(b"left by a kill")
    (tmp_path / "qemu/server-key.pem").chmod(0o640)
    layout(tmp_path).install(PLACES.plan(OTHER), NAMES)
    layout(tmp_path).mark_loaded(PLACES.plan(OTHER))
    assert layout(tmp_path).is_loaded(PLACES.plan(OTHER))
    assert not list(tmp_path.rglob(".*.pem*"))


def loosen(root: Path) -> None:
    (root / "qemu/server-key.pem").chmod(0o644)


def change(root: Path) -> None:
    (root / "ch/ca-cert.pem").write_text("changed")


def remove(root: Path) -> None:
    (root / "libvirt/servercert.pem").unlink()


def misdirect(root: Path) -> None:
    (root / "qemu/client-key.pem").unlink()
    (root / "qemu/client-key.pem").symlink_to("/etc/shadow")


def copy_over_link(root: Path) -> None:
    (root / "qemu/client-cert.pem").unlink()
    (root / "qemu/client-cert.pem").write_bytes(DATA["tls.crt"])


def link_over_file(root: Path) -> None:
    path = root / "qemu/server-key.pem"
    path.rename(root / "elsewhere")
    path.symlink_to(root / "elsewhere")


@pytest.mark.parametrize(
    "harm", [loosen, change, remove, misdirect, copy_over_link, link_over_file]
)
def test_file_that_was_changed_by_hand_is_restored(tmp_path: Path, harm: object) -> None:
    assert callable(harm)
    files = PLACES.plan(DATA)
    layout(tmp_path).install(files, NAMES)
    layout(tmp_path).mark_loaded(files)
    before = tree(tmp_path)
    assert layout(tmp_path).is_loaded(files)

    harm(tmp_path)
    assert not layout(tmp_path).is_loaded(files)
    layout(tmp_path).install(files, NAMES)

    assert layout(tmp_path).is_loaded(files)
    (tmp_path / "elsewhere").unlink(missing_ok=True)
    assert tree(tmp_path) == before


def test_correct_file_is_not_written_again(tmp_path: Path) -> None:
    layout(tmp_path).install(PLACES.plan(DATA), NAMES)
    before = {path: path.lstat().st_ino for path in tmp_path.rglob("*")}

    layout(tmp_path).install(PLACES.plan(DATA), NAMES)

    assert {path: path.lstat().st_ino for path in tmp_path.rglob("*")} == before


def test_installed_files_are_not_loaded_until_the_services_were_notified(tmp_path: Path) -> None:
    layout(tmp_path).install(PLACES.plan(DATA), NAMES)
    assert not layout(tmp_path).is_loaded(PLACES.plan(DATA))

    layout(tmp_path).mark_loaded(PLACES.plan(DATA))

    assert layout(tmp_path).is_loaded(PLACES.plan(DATA))
    assert not layout(tmp_path).is_loaded(PLACES.plan(OTHER))
    assert stat.S_IMODE((tmp_path / PLACES.mark).stat().st_mode) == 0o600


def test_a_directory_in_the_way_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "qemu/client-key.pem").mkdir(parents=True)

    with pytest.raises(OSError, match="client-key"):
        layout(tmp_path).install(PLACES.plan(DATA), NAMES)

    assert not list((tmp_path / "qemu").glob(".*"))


def test_no_key_is_shown(tmp_path: Path) -> None:
    assert "PRIVATE" not in repr(PLACES.plan(DATA))
    assert repr(File("a", b"secret", 0o600)) == "File(a, mode=600)"
    assert set(PLACES.links).isdisjoint(file.path for file in PLACES.plan(DATA))
