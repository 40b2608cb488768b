"""The roles and bindings that every cluster begins with, kept whole at each start.

What was taken away comes back, what was added stays, and an object whose annotation
`rbac.authorization.kubernetes.io/autoupdate` is "false" is left as it is.

Source: kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy (the data);
component-helpers auth/rbac/reconciliation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from importlib import resources as package_files

import msgspec
import yaml

from hypercobalt.apiserver.access.rbac import GROUP
from hypercobalt.apiserver.access.rules import Grants, Rule, missing_rules
from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.requests.request import SYSTEM_USER, Request, Response, Stream
from hypercobalt.apiserver.values import clone, list_at, object_at, text_at
from hypercobalt.logs import get_logger

log = get_logger(__name__)

Handle = Callable[[Request], Awaitable[Response | Stream]]

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"


def first_objects() -> list[JSONObject]:
    """The ClusterRoles and ClusterRoleBindings, as a new cluster has them."""
    text = (package_files.files("hypercobalt.apiserver.access") / "bootstrap.yaml").read_bytes()
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))  # a safe one


def reconciled(held: JSONObject, wanted: JSONObject) -> JSONObject | None:
    """A stored object with everything that it must have; None when it is to stay as it is."""
    new = clone(held)
    for name in ("labels", "annotations"):
        meta = new.setdefault("metadata", {})
        if isinstance(meta, dict):
            meta[name] = {**object_at(wanted, "metadata", name), **object_at(meta, name)}
    new |= dict(_additions(held, wanted))
    return None if new == held else new


def _additions(held: JSONObject, wanted: JSONObject) -> Iterator[tuple[str, JSON]]:
    rules = [msgspec.convert(rule, Rule) for rule in list_at(held, "rules")]
    required = [msgspec.convert(rule, Rule) for rule in list_at(wanted, "rules")]
    if missing := missing_rules(Grants.of(rules), required):
        yield "rules", [*list_at(held, "rules"), *(msgspec.to_builtins(rule) for rule in missing)]
    selectors = list_at(held, "aggregationRule", "clusterRoleSelectors")
    more = list_at(wanted, "aggregationRule", "clusterRoleSelectors")
    if any(selector not in selectors for selector in more):
        joined = [*selectors, *(selector for selector in more if selector not in selectors)]
        yield "aggregationRule", {"clusterRoleSelectors": joined}
    subjects = list_at(held, "subjects")
    if lost := [subject for subject in list_at(wanted, "subjects") if subject not in subjects]:
        yield "subjects", [*subjects, *lost]


async def ensure(handle: Handle) -> None:
    """Create the first objects, and restore what was taken from them.

    What cannot be written is logged; the server starts all the same, as administrators in
    `system:masters` need no role.
    """
    for wanted in first_objects():
        name = text_at(wanted, "metadata", "name")
        collection = f"/apis/{GROUP}/v1/{text_at(wanted, 'kind').lower()}s"
        code, held = await _send(handle, "GET", f"{collection}/{name}")
        if code == HTTPStatus.NOT_FOUND:
            code, _ = await _send(handle, "POST", collection, wanted)
        elif text_at(held, "metadata", "annotations", AUTOUPDATE) == "false":
            continue
        elif held.get("roleRef") != wanted.get("roleRef"):  # which cannot be changed
            await _send(handle, "DELETE", f"{collection}/{name}")
            code, _ = await _send(handle, "POST", collection, wanted)
        elif new := reconciled(held, wanted):
            code, _ = await _send(handle, "PUT", f"{collection}/{name}", new)
        if code >= HTTPStatus.BAD_REQUEST:
            log.warning("bootstrap_role_not_written", name=name, code=code)


async def _send(
    handle: Handle, method: str, path: str, body: JSONObject | None = None
) -> tuple[int, JSONObject]:
    data = b"" if body is None else msgspec.json.encode(body)
    query = {"fieldManager": "kube-apiserver"}
    answer = await handle(Request(method, path, query, {}, SYSTEM_USER, data))
    if not isinstance(answer, Response):
        return HTTPStatus.INTERNAL_SERVER_ERROR, {}
    return answer.code, msgspec.json.decode(answer.body)
