"""Who a request counts as when its headers name another, and who may send such headers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from hypercobalt.apiserver.access import rbac
from hypercobalt.apiserver.access.impersonation import NODE_NAME, acting_as
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
        pytest.param([], ADMIN, id="nobody-else"),
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
        pytest.param(
            [("user", "system:node:a")],
            User("system:node:a", "", ("system:nodes", AUTHENTICATED)),
            id="node",
        ),
        pytest.param([("user", "system:anonymous")], ANONYMOUS, id="anonymous"),
    ],
)
async def test_administrator_acts_for_anybody(
    store: Store, headers: list[tuple[str, str]], expected: User
) -> None:
    assert become(ADMIN, Rbac(store), headers) == expected


USERS = Rule(("impersonate",), ("",), ("users",), ("bob",))
GROUPS = Rule(("impersonate",), ("",), ("groups",), ("devs",))
EXTRA = Rule(("impersonate",), (AUTHENTICATION,), ("userextras/scopes",), ("read",))
CONSTRAINED = Rule(("impersonate:user-info",), (AUTHENTICATION,), ("users", "groups"))
ON_PODS = Rule(("impersonate-on:user-info:list",), ("",), ("pods",))
BOB = ("user", "bob")


@pytest.mark.parametrize(
    ("rules", "headers", "refused"),
    [
        pytest.param([], [BOB], "impersonate-on:user-info:list", id="nothing-granted"),
        pytest.param([USERS], [BOB], "", id="named-user"),
        pytest.param([USERS], [("user", "alice")], "list", id="other-user"),
        pytest.param([USERS], [BOB, ("group", "devs")], "list", id="group-not-granted"),
        pytest.param([USERS, GROUPS], [BOB, ("group", "devs")], "", id="group"),
        pytest.param([USERS, GROUPS], [BOB, ("group", "system:masters")], "impersonate"),
        pytest.param([USERS], [BOB, ("uid", "1")], "list", id="uid-not-granted"),
        pytest.param([USERS], [BOB, ("extra-scopes", "read")], "list", id="extra-not-granted"),
        pytest.param([USERS, EXTRA], [BOB, ("extra-scopes", "read")], "", id="extra"),
        pytest.param([USERS, EXTRA], [BOB, ("extra-scopes", "write")], "list", id="other-extra"),
        pytest.param([USERS, EXTRA], [BOB, ("extra-other", "read")], "list", id="other-key"),
        pytest.param([USERS], [("user", ACCOUNT)], "impersonate-on:serviceaccount", id="account"),
        pytest.param([CONSTRAINED, ON_PODS], [BOB], "", id="constrained"),
        pytest.param([CONSTRAINED], [BOB], "impersonate-on", id="constrained-on-nothing"),
        pytest.param([ON_PODS], [BOB], "impersonate:user-info", id="constrained-to-nobody"),
        pytest.param(
            [CONSTRAINED, ON_PODS], [BOB, ("group", "system:masters")], "impersonate",
            id="never-constrained-to-masters",
        ),
        pytest.param([CONSTRAINED, ON_PODS], [("user", "system:node:a")], "arbitrary-node"),
    ],
)  # fmt: skip
async def test_each_thing_that_is_named_must_be_granted(
    store: Store, rules: list[Rule], headers: list[tuple[str, str]], refused: str
) -> None:
    rights = await granting(store, rules)
    if not refused:
        assert become(EVE, rights, headers).name == headers[0][1]
        return
    with pytest.raises(StatusError, match=f'User "eve" cannot .*{refused}') as caught:
        become(EVE, rights, headers)
    assert caught.value.code == 403


@pytest.mark.parametrize(
    ("where", "allowed"), [("a", True), ("b", False), ("", False)], ids=["own", "other", "none"]
)
async def test_agent_acts_for_its_own_node_only(store: Store, where: str, *, allowed: bool) -> None:
    rules = [
        Rule(("impersonate:associated-node",), (AUTHENTICATION,), ("nodes",)),
        Rule(("impersonate-on:associated-node:list",), ("",), ("pods",)),
    ]
    ref, subjects = {"kind": "ClusterRole", "name": "s"}, [{"kind": "User", "name": ACCOUNT}]
    rights = await granting(store, rules)
    key = Key(rbac.CLUSTER_ROLE_BINDINGS, "", "s")
    data = msgspec.json.encode({"roleRef": {**ref, "name": "r"}, "subjects": subjects})
    async with store.locked(key):
        await store.write("ADDED", key, lambda _: data, None)
    agent = User(ACCOUNT, extra={NODE_NAME: (where,)} if where else {})
    if allowed:
        assert become(agent, rights, [("user", "system:node:a")]).groups[0] == "system:nodes"
    else:
        with pytest.raises(StatusError):
            become(agent, rights, [("user", "system:node:a")])


@pytest.mark.parametrize("header", ["group", "uid", "extra-scopes", "extra-"])
async def test_user_must_be_named(store: Store, header: str) -> None:
    with pytest.raises(StatusError) as caught:
        become(ADMIN, Rbac(store), [(header, "a")])
    assert caught.value.code == 400


async def test_anonymous_acts_for_nobody(store: Store) -> None:
    with pytest.raises(StatusError) as caught:
        become(ANONYMOUS, Rbac(store), [BOB])
    assert caught.value.code == 403
