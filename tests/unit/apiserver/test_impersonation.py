"""Who a request counts as when its headers name another, and who may send such headers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from hypercobalt.apiserver.access import rbac
from hypercobalt.apiserver.access.impersonation import acting_as
from hypercobalt.apiserver.access.rbac import Rbac
from hypercobalt.apiserver.access.rules import Rule
from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.requests.request import ANONYMOUS, AUTHENTICATED, Request, User
from hypercobalt.apiserver.storage.objects import Key
from hypercobalt.apiserver.storage.store import Store

ADMIN = User("admin", "1", ("system:masters", AUTHENTICATED))
EVE = User("eve", groups=(AUTHENTICATED,))
ACCOUNT = "system:serviceaccount:space:robot"
ACCOUNT_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:space")
AUTHENTICATION = "authentication.k8s.io"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path)
    yield store
    await store.close()


async def granting(store: Store, rules: list[Rule]) -> Rbac:
    """Rights of one user, eve, for the whole cluster."""
    ref = {"kind": "ClusterRole", "name": "r"}
    subjects = [{"kind": "User", "name": "eve"}]
    bodies = {
        rbac.CLUSTER_ROLES: {"rules": rules},
        rbac.CLUSTER_ROLE_BINDINGS: {"roleRef": ref, "subjects": subjects},
    }
    for resource, body in bodies.items():
        key, data = Key(resource, "", "r"), msgspec.json.encode(body)
        async with store.locked(key):
            await store.write("ADDED", key, lambda _, data=data: data, None)  # type: ignore[misc]
    return Rbac(store)


def become(user: User, rights: Rbac, headers: list[tuple[str, str]]) -> User:
    request = Request("GET", "/api/v1/pods", {}, {}, user)
    sent = [(f"impersonate-{name}", value) for name, value in headers]
    return acting_as(request, [("accept", "*/*"), *sent], rights)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([], ADMIN, id="no-impersonation"),
        pytest.param([("user", "")], ADMIN, id="no-name"),
        pytest.param([("user", "bob")], User("bob", groups=(AUTHENTICATED,)), id="a-user"),
        pytest.param(
            [("user", "bob"), ("group", "a"), ("group", "b"), ("uid", "7")],
            User("bob", "7", ("a", "b", AUTHENTICATED)),
            id="groups-and-uid",
        ),
        pytest.param(
            [("user", "bob"), ("group", "system:unauthenticated")],
            User("bob", "", ("system:unauthenticated",)),
            id="outside",
        ),
        pytest.param(
            [("user", "bob"), ("extra-a%2fb", "x"), ("extra-a%2fb", "y"), ("extra-c", "")],
            User("bob", "", (AUTHENTICATED,), {"a/b": ("x", "y"), "c": ("",)}),
            id="extra",
        ),
        pytest.param(
            [("user", ACCOUNT)], User(ACCOUNT, "", (*ACCOUNT_GROUPS, AUTHENTICATED)), id="account"
        ),
        pytest.param(
            [("user", ACCOUNT), ("group", "a")],
            User(ACCOUNT, "", ("a", AUTHENTICATED)),
            id="account-in-other-groups",
        ),
        pytest.param([("user", "system:anonymous")], ANONYMOUS, id="anonymous"),
    ],
)
async def test_administrator_may_impersonate_any_user(
    store: Store, headers: list[tuple[str, str]], expected: User
) -> None:
    assert become(ADMIN, Rbac(store), headers) == expected


USERS = Rule(("impersonate",), ("",), ("users",), ("bob",))
GROUPS = Rule(("impersonate",), ("",), ("groups",), ("devs",))
EXTRA = Rule(("impersonate",), (AUTHENTICATION,), ("userextras/scopes",), ("read",))
CONSTRAINED = Rule(("impersonate:user-info", "impersonate-on:user-info:list"), ("*",), ("*",))
BOB = ("user", "bob")


@pytest.mark.parametrize(
    ("rules", "headers", "refused"),
    [
        pytest.param([], [BOB], "users", id="nothing-granted"),
        pytest.param([USERS], [BOB], "", id="named-user"),
        pytest.param([USERS], [("user", "alice")], "users", id="other-user"),
        pytest.param([USERS], [BOB, ("group", "devs")], "groups", id="group-not-granted"),
        pytest.param([USERS, GROUPS], [BOB, ("group", "devs")], "", id="group"),
        pytest.param([USERS, GROUPS], [BOB, ("group", "system:masters")], "groups"),
        pytest.param([USERS], [BOB, ("uid", "1")], "uids", id="uid-not-granted"),
        pytest.param([USERS], [BOB, ("extra-scopes", "read")], "userextras", id="extra"),
        pytest.param([USERS, EXTRA], [BOB, ("extra-scopes", "read")], "", id="extra-granted"),
        pytest.param([USERS, EXTRA], [BOB, ("extra-scopes", "write")], "userextras"),
        pytest.param([USERS, EXTRA], [BOB, ("extra-other", "read")], "userextras", id="other-key"),
        pytest.param([USERS], [("user", ACCOUNT)], "serviceaccounts", id="account"),
        pytest.param([CONSTRAINED], [BOB], "users", id="constrained-verbs-grant-nothing"),
    ],
)
async def test_each_impersonated_attribute_must_be_granted(
    store: Store, rules: list[Rule], headers: list[tuple[str, str]], refused: str
) -> None:
    rights = await granting(store, rules)
    if not refused:
        assert become(EVE, rights, headers).name == headers[0][1]
        return
    with pytest.raises(
        StatusError, match=f'User "eve" cannot impersonate resource .*{refused}'
    ) as caught:
        become(EVE, rights, headers)
    assert caught.value.code == 403


@pytest.mark.parametrize("header", ["group", "uid", "extra-scopes", "extra-"])
async def test_user_must_be_named(store: Store, header: str) -> None:
    with pytest.raises(StatusError) as caught:
        become(ADMIN, Rbac(store), [(header, "a")])
    assert caught.value.code == 400


async def test_anonymous_cannot_impersonate(store: Store) -> None:
    with pytest.raises(StatusError) as caught:
        become(ANONYMOUS, Rbac(store), [BOB])
    assert caught.value.code == 403
