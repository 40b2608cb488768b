"""The compiled index decides as a plain walk over all bindings would, after any writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypercobalt.apiserver.access import rbac
from hypercobalt.apiserver.access.attributes import Attributes
from hypercobalt.apiserver.access.rbac import Rbac
from hypercobalt.apiserver.access.rules import Rule
from hypercobalt.apiserver.requests.request import User
from hypercobalt.apiserver.storage.objects import Event, Key, Stored
from hypercobalt.apiserver.storage.store import Store

SPACES = ("a", "b")
ACCOUNT = "system:serviceaccount:a:robot"
Objects = dict[Key, dict[str, object]]


class Published:
    """A store of which only the published events matter."""

    def __init__(self) -> None:
        self.objects: Objects = {}
        self._listener: Callable[[Event], None] = lambda _: None

    def scan(self, resource: str) -> Iterator[tuple[Key, Stored]]:
        for key, body in self.objects.items():
            if key.resource == resource:
                yield key, Stored(1, msgspec.json.encode(body))

    def listen(self, listener: Callable[[Event], None]) -> None:
        self._listener = listener

    def write(self, key: Key, body: dict[str, object] | None) -> None:
        if body is None and key not in self.objects:
            return
        kind = "DELETED" if body is None else "MODIFIED" if key in self.objects else "ADDED"
        data = msgspec.json.encode(body or {})
        if body is None:
            del self.objects[key]
        else:
            self.objects[key] = body
        self._listener(Event(1, kind, key, data, None))  # type: ignore[arg-type]


def some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2).map(tuple)


RULES = st.builds(
    Rule,
    verbs=some("get", "list", "*"),
    apiGroups=some("", "apps", "*"),
    resources=some("pods", "pods/log", "*/log", "*"),
    resourceNames=some("x", "") | st.none(),
    nonResourceURLs=some("/a", "/a/*", "*") | st.none(),
)
SUBJECTS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["User", "Group", "ServiceAccount"]),
        "name": st.sampled_from(["eve", "devs", "robot", ACCOUNT]),
        "namespace": st.sampled_from(["", *SPACES]),
    }
)
ROLES = st.fixed_dictionaries({"rules": st.lists(RULES, max_size=3) | st.none()})
BINDINGS = st.fixed_dictionaries(
    {
        "roleRef": st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["Role", "ClusterRole"]),
                "name": st.sampled_from(["r", "s"]),
            }
        ),
        "subjects": st.lists(SUBJECTS, max_size=3),
    }
)
PLACES = st.sampled_from(SPACES)
NAMES = st.sampled_from(["r", "s"])
ROLE_KEYS = st.builds(Key, st.just(rbac.ROLES), PLACES, NAMES) | st.builds(
    Key, st.just(rbac.CLUSTER_ROLES), st.just(""), NAMES
)
BINDING_KEYS = st.builds(Key, st.just(rbac.ROLE_BINDINGS), PLACES, NAMES) | st.builds(
    Key, st.just(rbac.CLUSTER_ROLE_BINDINGS), st.just(""), NAMES
)
WRITES = st.tuples(ROLE_KEYS, ROLES | st.none()) | st.tuples(BINDING_KEYS, BINDINGS | st.none())
USERS = st.sampled_from(
    [User("eve"), User("adam", groups=("devs",)), User(ACCOUNT, groups=("devs", "eve"))]
)
ATTRIBUTES = st.builds(
    Attributes,
    verb=st.sampled_from(["get", "list", "delete"]),
    group=st.sampled_from(["", "apps"]),
    resource=st.sampled_from(["pods", "services"]),
    subresource=st.sampled_from(["", "log"]),
    namespace=st.sampled_from(["", *SPACES]),
    name=st.sampled_from(["", "x", "y"]),
) | st.builds(
    Attributes,
    verb=st.sampled_from(["get", "delete"]),
    path=st.sampled_from(["/a", "/a/b", "/ab", "/"]),
)


# -- the plain walk, as upstream's ----------------------------------------------------------------


def walked(objects: Objects, user: User, attributes: Attributes) -> bool:
    for key, body in objects.items():
        if key.resource not in (rbac.ROLE_BINDINGS, rbac.CLUSTER_ROLE_BINDINGS):
            continue
        if key.namespace and key.namespace != attributes.namespace:
            continue
        subjects = cast("list[dict[str, str]]", body["subjects"])
        if not any(is_subject(user, subject, key.namespace) for subject in subjects):
            continue
        ref = cast("dict[str, str]", body["roleRef"])
        cluster = ref["kind"] == "ClusterRole"
        place = ("", ref["name"]) if cluster else (key.namespace, ref["name"])
        role = objects.get(Key(rbac.CLUSTER_ROLES if cluster else rbac.ROLES, *place), {})
        rules = cast("list[Rule] | None", role.get("rules")) or []
        if any(allows(rule, attributes) for rule in rules):
            return True
    return False


def is_subject(user: User, subject: dict[str, str], namespace: str) -> bool:
    match subject["kind"]:
        case "User":
            return user.name == subject["name"]
        case "Group":
            return subject["name"] in user.groups
        case _:
            where = subject["namespace"] or namespace
            return user.name == f"system:serviceaccount:{where}:{subject['name']}"


def allows(rule: Rule, attributes: Attributes) -> bool:
    if not {attributes.verb, "*"} & {*(rule.verbs or ())}:
        return False
    if attributes.path is not None:
        return any(
            url in ("*", attributes.path)
            or (url.endswith("*") and attributes.path.startswith(url[:-1]))
            for url in rule.nonResourceURLs or ()
        )
    wanted = {"*", "/".join(filter(None, (attributes.resource, attributes.subresource)))}
    if attributes.subresource:
        wanted.add(f"*/{attributes.subresource}")
    return bool(
        {attributes.group, "*"} & {*(rule.apiGroups or ())}
        and wanted & {*(rule.resources or ())}
        and (not rule.resourceNames or attributes.name in rule.resourceNames)
    )


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(WRITES, max_size=12), st.lists(st.tuples(USERS, ATTRIBUTES), min_size=1, max_size=6)
)
def test_index_decides_as_a_walk_over_all_bindings(
    writes: list[tuple[Key, dict[str, object] | None]], requests: list[tuple[User, Attributes]]
) -> None:
    store = Published()
    index = Rbac(cast(Store, store))
    for key, body in writes:
        store.write(key, body)
        for user, attributes in requests:
            expected = walked(store.objects, user, attributes)
            assert index.authorize(user, attributes).allowed is expected
    again = Rbac(cast(Store, store))
    for user, attributes in requests:
        assert again.authorize(user, attributes).allowed is walked(store.objects, user, attributes)
