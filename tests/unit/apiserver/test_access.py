"""Token files, certificates' subjects, and the files that TLS needs."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from hypercobalt import pki
from hypercobalt.apiserver.access import kubeconfig
from hypercobalt.apiserver.access.authentication import Authenticator, bearer_token, read_tokens
from hypercobalt.apiserver.access.jwt import TokenKey
from hypercobalt.apiserver.access.tokens import Accounts
from hypercobalt.apiserver.requests.request import AUTHENTICATED, User
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.errors import ConfigurationError
from hypercobalt.pki import certificates


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
    tester = Authenticator({"t": user}, Accounts(store, TokenKey(tmp_path / "sa.key")))
    assert tester.by_token(token) == (user if known else None)
    await store.close()


async def test_certificates_name_their_bearer(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    authenticator = Authenticator({}, Accounts(store, TokenKey(tmp_path / "sa.key")))
    await store.close()
    subject = ((("organizationName", "a"),), (("organizationName", "b"),), (("commonName", "u"),))
    assert authenticator.by_certificate({"subject": subject}) == User(
        "u", groups=("a", "b", AUTHENTICATED)
    )
    assert authenticator.by_certificate({"subject": ((("organizationName", "a"),),)}) is None
    assert authenticator.by_certificate({}) is None
    assert authenticator.by_certificate(None) is None


# -- files -------------------------------------------------------------------------------------


def test_the_kubeconfig_is_whole(tmp_path: Path) -> None:
    certificates.make(tmp_path, ("localhost",))
    pair = pki.load(tmp_path, "admin")
    text = kubeconfig.render("https://h:1", (tmp_path / "ca.crt").read_bytes(), pair)
    assert b"https://h:1" in text
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=(tmp_path / "ca.crt").read_text())
    context.load_cert_chain(tmp_path / "admin.crt", tmp_path / "admin.key")


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
