"""Signed tokens, and when one of a service account is good."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from hypercobalt.apiserver.access import jwt
from hypercobalt.apiserver.access.authentication import Authenticator
from hypercobalt.apiserver.access.jwt import TokenError, TokenKey
from hypercobalt.apiserver.access.tokens import AUDIENCES, ISSUER, Accounts
from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.requests.bodies import Body
from hypercobalt.apiserver.requests.request import Call, Request, User
from hypercobalt.apiserver.storage.objects import Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import text_at

EXTRA = "authentication.kubernetes.io"


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> TokenKey:
    return TokenKey(tmp_path_factory.mktemp("keys") / "sa.key")


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.load()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path)
    yield store
    await store.close()


async def put(store: Store, resource: str, name: str, uid: str, **spec: str) -> None:
    key = Key(resource, "" if resource == "nodes" else "space", name)
    data = msgspec.json.encode({"metadata": {"name": name, "uid": uid}, "spec": spec})
    async with store.locked(key) as held:
        previous = held.data if held else None
        await store.write("MODIFIED" if held else "ADDED", key, lambda _: data, previous)


async def remove(store: Store, resource: str, name: str) -> None:
    key = Key(resource, "" if resource == "nodes" else "space", name)
    async with store.locked(key) as held:
        assert held is not None
        await store.write("DELETED", key, lambda _: held.data, held.data)


def request(registry: Registry, **spec: object) -> Call:
    resource = registry.find("", "v1", "serviceaccounts")
    assert resource is not None
    sent = Request("POST", "", {}, {}, User("eve"))
    body: JSONObject = {"spec": msgspec.to_builtins(spec)}
    return Call(sent, resource, "space", "robot", "token", Body(body))


def given(answer: JSONObject) -> str:
    return text_at(answer, "status", "token")


# -- signing -----------------------------------------------------------------------------------


def test_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    token = TokenKey(path).sign(b"{}")
    assert path.stat().st_mode & 0o777 == 0o600
    assert TokenKey(path).verify(token) == b"{}"


def test_token_of_another_key_is_refused(signing: TokenKey, tmp_path: Path) -> None:
    with pytest.raises(TokenError):
        signing.verify(TokenKey(tmp_path / "other").sign(b"{}"))


def _packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


NONE, OTHER, ROOT = map(_packed, ('{"alg":"none"}', '{"alg":"HS256"}', '{"sub":"root"}'))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda h, b, s: f"{h}.{b}.", id="no-signature"),
        pytest.param(lambda h, b, s: f"{NONE}.{b}.", id="none"),
        pytest.param(lambda h, b, s: f"{OTHER}.{b}.{s}", id="other-algorithm"),
        pytest.param(lambda h, b, s: f"{h}.{ROOT}.{s}", id="other-claims"),
        pytest.param(lambda h, b, s: f"{h}.{b}.{s[:-2]}", id="cut"),
        pytest.param(lambda h, b, s: f"{h}.{b}.{s}=", id="padded"),
        pytest.param(lambda h, b, s: f"{h}.{b}.{'A' * len(s)}", id="zeros"),
        pytest.param(lambda h, b, s: "..", id="nothing"),
        pytest.param(lambda h, b, s: f"{h}.{b}.\xe9", id="beyond-ascii"),
        pytest.param(lambda h, b, s: h, id="a-part"),
    ],
)  # fmt: skip
def test_changed_token_is_refused(signing: TokenKey, change: object) -> None:
    assert callable(change)
    with pytest.raises(TokenError):
        signing.verify(change(*signing.sign(b'{"sub":"eve"}').split(".")))


def test_last_letter_of_a_signature_has_one_form_only(signing: TokenKey) -> None:
    token = signing.sign(b"{}")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    found = [letter for letter in letters if _verifies(signing, token[:-1] + letter)]
    assert found == [token[-1]]


def _verifies(signing: TokenKey, token: str) -> bool:
    try:
        signing.verify(token)
    except TokenError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "is_one"), [("a.b.c", True), ("a.b", False), ("", False), ("a." * 9_000, False)]
)
def test_token_is_recognised_by_its_form(text: str, *, is_one: bool) -> None:
    assert jwt.is_token(text) is is_one


# -- service accounts --------------------------------------------------------------------------


async def test_token_authenticates_its_service_account(
    store: Store, signing: TokenKey, registry: Registry
) -> None:
    accounts = Accounts(store, signing)
    await put(store, "serviceaccounts", "robot", "u1")
    user, audiences = accounts.user_of(given(accounts.issue(request(registry))))
    assert (user.name, user.uid) == ("system:serviceaccount:space:robot", "u1")
    assert user.groups == (
        *("system:serviceaccounts", "system:serviceaccounts:space"),
        "system:authenticated",
    )
    assert list(user.extra) == [f"{EXTRA}/credential-id"]
    assert audiences == (ISSUER,)


async def test_token_of_a_pod_names_its_node(
    store: Store, signing: TokenKey, registry: Registry
) -> None:
    accounts = Accounts(store, signing)
    await put(store, "serviceaccounts", "robot", "u1")
    await put(store, "nodes", "kvm-a", "u2")
    await put(store, "pods", "agent", "u3", serviceAccountName="robot", nodeName="kvm-a")
    ref = {"kind": "Pod", "apiVersion": "v1", "name": "agent", "uid": "u3"}
    user, _ = accounts.user_of(given(accounts.issue(request(registry, boundObjectRef=ref))))
    assert {key.partition("/")[2]: values for key, values in user.extra.items()} | {
        "credential-id": ()
    } == {
        "credential-id": (),
        "node-name": ("kvm-a",),
        "node-uid": ("u2",),
        "pod-name": ("agent",),
        "pod-uid": ("u3",),
    }


@pytest.mark.parametrize(
    ("kind", "gone", "dead"),
    [
        pytest.param("", "serviceaccounts", True, id="account"),
        pytest.param("Pod", "pods", True, id="pod"),
        pytest.param("Pod", "serviceaccounts", True, id="account-of-a-pod"),
        pytest.param("Pod", "nodes", False, id="node-of-a-pod"),
        pytest.param("Node", "nodes", True, id="node"),
        pytest.param("Secret", "secrets", True, id="secret"),
        pytest.param("Secret", "pods", False, id="something-else"),
    ],
)
@pytest.mark.parametrize("again", [False, True], ids=["gone", "made-again"])
async def test_token_ends_with_what_it_is_bound_to(
    store: Store,
    signing: TokenKey,
    registry: Registry,
    kind: str,
    gone: str,
    *,
    dead: bool,
    again: bool,
) -> None:
    accounts = Accounts(store, signing)
    names = {"serviceaccounts": "robot", "pods": "p", "nodes": "n", "secrets": "s"}
    for resource, name in names.items():
        await put(store, resource, name, f"uid-{name}", serviceAccountName="robot", nodeName="n")
    spec: dict[str, object] = {}
    if kind:
        name = names[f"{kind.lower()}s"]
        spec = {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}}
    token = given(accounts.issue(request(registry, **spec)))
    accounts.user_of(token)
    await remove(store, gone, names[gone])
    if again:
        await put(store, gone, names[gone], "another", serviceAccountName="robot")
    if dead:
        with pytest.raises(TokenError, match="gone"):
            accounts.user_of(token)
    else:
        accounts.user_of(token)


@pytest.mark.parametrize(("minutes", "reason"), [(-10, "not valid yet"), (9, ""), (12, "expired")])
async def test_token_has_its_time(
    store: Store, signing: TokenKey, registry: Registry, minutes: int, reason: str
) -> None:
    accounts = Accounts(store, signing)
    await put(store, "serviceaccounts", "robot", "u1")
    call = request(registry, expirationSeconds=600)
    earlier = replace(call, now=datetime.now(UTC) - timedelta(minutes=minutes))
    token = given(accounts.issue(earlier))
    if reason:
        with pytest.raises(TokenError, match=reason):
            accounts.user_of(token)
    else:
        accounts.user_of(token)


async def test_token_is_for_its_audiences(
    store: Store, signing: TokenKey, registry: Registry
) -> None:
    await put(store, "serviceaccounts", "robot", "u1")
    tester = Authenticator({"secret": User("eve")}, Accounts(store, signing))
    token = given(tester.accounts.issue(request(registry, audiences=["vault", "other"])))
    assert tester.by_token(f"Bearer {token}") is None
    assert tester.identify(token, ("other", "none"))[1] == ("other",)
    assert tester.identify("secret", AUDIENCES) == (User("eve"), AUDIENCES)
    with pytest.raises(TokenError):
        tester.identify("secret", ("vault",))
    with pytest.raises(TokenError):
        tester.identify(token, AUDIENCES)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"expirationSeconds": 599}, 422),
        ({"expirationSeconds": 2**33}, 422),
        ({"expirationSeconds": "long"}, 400),
        ({"audiences": "vault"}, 400),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}, 404),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "strange"}}, 400),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v2", "name": "p"}}, 400),
        ({"boundObjectRef": {"kind": "Lease", "apiVersion": "v1", "name": "p"}}, 400),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "x"}}, 409),
    ],
)
async def test_invalid_token_request_is_refused(
    store: Store, signing: TokenKey, registry: Registry, spec: dict[str, object], code: int
) -> None:
    accounts = Accounts(store, signing)
    await put(store, "serviceaccounts", "robot", "u1")
    await put(store, "pods", "p", "u2", serviceAccountName="robot")
    await put(store, "pods", "strange", "u3", serviceAccountName="other")
    with pytest.raises(StatusError) as caught:
        accounts.issue(request(registry, **spec))
    assert caught.value.code == code


async def test_no_token_without_an_account(
    store: Store, signing: TokenKey, registry: Registry
) -> None:
    with pytest.raises(StatusError) as caught:
        Accounts(store, signing).issue(request(registry))
    assert caught.value.code == 404
