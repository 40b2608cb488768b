"""Token files, certificates' subjects, and the files that TLS needs."""

from __future__ import annotations

import ipaddress
import os
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hypercobalt.apiserver.access import certificates, kubeconfig, pki
from hypercobalt.apiserver.access.authentication import Authenticator, bearer_token, read_tokens
from hypercobalt.apiserver.access.jwt import Key
from hypercobalt.apiserver.access.pki import Record
from hypercobalt.apiserver.access.tokens import Accounts
from hypercobalt.apiserver.requests.request import AUTHENTICATED, User
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "users"),
    [
        pytest.param("t,u,1\n", {"t": User("u", "1", (AUTHENTICATED,))}, id="no-groups"),
        pytest.param(
            't,u,1,"a,b"\n', {"t": User("u", "1", ("a", "b", AUTHENTICATED))}, id="groups"
        ),
        pytest.param("t,u,1,a\n", {"t": User("u", "1", ("a", AUTHENTICATED))}, id="one-group"),
        pytest.param("\nt, u, 1\n\n", {"t": User("u", "1", (AUTHENTICATED,))}, id="empty-lines"),
        pytest.param('"t,x",u,\n', {"t,x": User("u", "", (AUTHENTICATED,))}, id="a-comma-in-it"),
        pytest.param("", {}, id="empty"),
        pytest.param("t,u,1\nt,v,2\n", {"t": User("v", "2", (AUTHENTICATED,))}, id="the-last-wins"),
    ],
)
def test_token_file_gives_users_by_token(tmp_path: Path, text: str, users: dict[str, User]) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text(text)
    assert read_tokens(path) == users


@pytest.mark.parametrize("data", [b"t,u\n", b"t\n", b",u,1\n", b"t,,1\n", b"\xff\xfe,u,1\n"])
def test_bad_token_files_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "tokens.csv"
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match="token file"):
        read_tokens(path)


def test_a_missing_token_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_tokens(tmp_path / "none")


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer t", "t"),
        ("bearer t", "t"),
        ("Bearer t x", "t"),
        ("Bearer  t", ""),
        ("Bearer", ""),
        ("Basic t", ""),
        ("t", ""),
        ("", ""),
    ],
)
def test_bearer_token_is_read_from_the_header(header: str, token: str) -> None:
    assert bearer_token({"authorization": header}) == token


@pytest.mark.parametrize(("token", "known"), [("t", True), ("x", False), ("", False)])
async def test_user_is_found_by_the_whole_token_only(
    tmp_path: Path, token: str, *, known: bool
) -> None:
    user = User("u")
    store = await Store.open(tmp_path)
    tester = Authenticator({"t": user}, Accounts(store, Key(tmp_path / "sa.key")))
    assert tester.by_token(token) == (user if known else None)
    await store.close()


async def test_certificates_name_their_bearer(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    authenticator = Authenticator({}, Accounts(store, Key(tmp_path / "sa.key")))
    await store.close()
    subject = ((("organizationName", "a"),), (("organizationName", "b"),), (("commonName", "u"),))
    assert authenticator.by_certificate({"subject": subject}) == User(
        "u", groups=("a", "b", AUTHENTICATED)
    )
    assert authenticator.by_certificate({"subject": ((("organizationName", "a"),),)}) is None
    assert authenticator.by_certificate({}) is None
    assert authenticator.by_certificate(None) is None


# -- files -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pki")
    certificates.make(directory, pki.server_names("10.0.0.9"))
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
    data = Record(datetime.now(UTC) + expires, hosts)
    (directory / "record.json").write_bytes(msgspec.json.encode(data))


def test_making_certificates_costs_the_server_no_memory(tmp_path: Path) -> None:
    made = tmp_path / "pki"
    program = (
        "import sys; from pathlib import Path; from hypercobalt.apiserver.access import pki;"
        "pki.prepare(Path(sys.argv[1]), '127.0.0.1'); sys.exit('cryptography' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, made], check=True)
    assert pki.prepare(made, "127.0.0.1").ca == (made / "ca.crt").read_bytes()


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
    assert pki._is_current(tmp_path, ("a",)) is current


@pytest.mark.parametrize("damage", ["server.key", "ca.crt", "record.json"])
def test_a_missing_file_is_noticed(made: Path, tmp_path: Path, damage: str) -> None:
    for file in made.iterdir():
        if file.name != damage:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert not pki._is_current(tmp_path, ("localhost",))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"expires":"x","hosts":[]}', b"\xff"])
def test_a_broken_record_is_no_record(made: Path, tmp_path: Path, data: bytes) -> None:
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "record.json").write_bytes(data)
    assert not pki._is_current(tmp_path, ("localhost",))


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"certificates in .* cannot be made"):
        pki.prepare(tmp_path / "file" / "pki", "127.0.0.1")


def test_a_damaged_authority_is_a_clear_error(made: Path, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes((made / "ca.crt").read_bytes())
    (tmp_path / "ca.key").write_bytes(b"damaged")
    with pytest.raises(ConfigurationError, match=r"certificates in .* cannot be made"):
        pki.prepare(tmp_path, "127.0.0.1")


def test_a_secret_is_replaced_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("old")
    path.chmod(0o644)
    pki.write_secret(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_the_kubeconfig_is_whole(made: Path) -> None:
    pair = pki.load(made, "admin")
    text = kubeconfig.render("https://h:1", (made / "ca.crt").read_bytes(), pair)
    assert b"https://h:1" in text
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=(made / "ca.crt").read_text())
    context.load_cert_chain(made / "admin.crt", made / "admin.key")


# -- kubeconfig files --------------------------------------------------------------------------

PAIR = pki.Pair(b"certificate", b"key")
OLD, NEW = (kubeconfig.render(f"https://h:{port}", b"ca", PAIR) for port in (1, 2))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(None, id="nothing"),
        pytest.param(b" \n", id="an-empty-file"),
        pytest.param(OLD, id="that-of-an-older-start"),
        pytest.param(b"apiVersion: v1\nclusters: null\nusers: []\n", id="without-entries"),
    ],
)
def test_a_kubeconfig_of_our_own_is_replaced(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "kubeconfig"
    if data is not None:
        path.write_bytes(data)
    kubeconfig.write(path, NEW)
    assert path.read_bytes() == NEW
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (OLD.replace(b"- name: cobalt\n  user", b"- name: kim\n  user"), "the user 'kim'"),
        (b"clusters: [{name: production}]\nusers: []", "the cluster 'production'"),
        (b"contexts: [{name: cobalt}, {name: work}]", "the context 'work'"),
        (b"[a, list]", "not a kubeconfig"),
        (b"clusters: {a: b}", "not a kubeconfig"),
        (b"users: [{user: {}}]", "not a kubeconfig"),
        (b"a: b: c", "not a kubeconfig"),
        (b"\xff\xfe\x00", "not a kubeconfig"),
        (b"[" * 2_000, "not a kubeconfig"),
    ],
    ids=lambda value: value[:30] if isinstance(value, bytes) else "",
)
def test_kubeconfig_of_another_cluster_is_not_replaced(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    path = tmp_path / "config"
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=rf"{reason}; name another .*--kubeconfig"):
        kubeconfig.write(path, NEW)
    assert path.read_bytes() == data


def test_a_link_to_a_kubeconfig_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(OLD)
    link.symlink_to(target)
    kubeconfig.write(link, NEW)
    assert link.is_symlink()
    assert target.read_bytes() == NEW


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigurationError, match="not a file"):
        kubeconfig.write(pipe, NEW)
    assert pipe.is_fifo()
