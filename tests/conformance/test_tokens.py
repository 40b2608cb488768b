"""Tokens of service accounts: how they are issued, what user they carry, and when they expire."""

from __future__ import annotations

import asyncio
import base64
import json
from http import HTTPStatus

from tests.conformance.samples import pod
from tests.conformance.script import Answer, Api, scenario
from tests.conformance.wire import Body, Json

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def account(api: Api, name: str = "robot") -> Answer:
    return await api.request("POST", api.at("serviceaccounts"), {"metadata": {"name": name}})


async def token(api: Api, name: str = "robot", **spec: Json) -> str:
    """Request a token; record the answer with the claims instead of the token."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await api.request("POST", f"{api.at('serviceaccounts', name)}/token", body)
    line = f"token { ({key: part for key, part in spec.items() if key != 'boundObjectRef'}) }"
    line += f" for {spec.get('boundObjectRef', {}).get('name', 'nothing')}"
    if answer.status != 201:
        api.record(line, [answer.status, answer.body])
        return ""
    given = str(answer["status"].pop("token"))
    answer["metadata"].pop("managedFields", None)
    payload = given.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    lifetime = claims.pop("exp") - claims["iat"], claims.pop("nbf") - claims.pop("iat")
    claims.pop("jti")
    expires = answer["status"].pop("expirationTimestamp")
    api.record(line, [answer.body, lifetime, claims, len(expires)])
    return given


async def who(api: Api, given: str, what: str) -> None:
    """Record the user of a token, as the server sees it and as a review reports it."""
    answer = await api.request("POST", WHO, REVIEW, token=given)
    info = answer["status"]["userInfo"] if answer.status == 201 else answer.body
    if answer.status == 201:
        (credential,) = info["extra"].pop("authentication.kubernetes.io/credential-id")
        info["credential"] = credential.partition("=")[0]
    api.record(f"{what}: who", [answer.status, info])
    await review(api, given, what)


async def review(api: Api, given: str, what: str, *audiences: str) -> None:
    spec: Body = {"token": given, **({"audiences": list(audiences)} if audiences else {})}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    answer = await api.request("POST", REVIEWS, body)
    seen = answer["status"] if answer.status == 201 else answer.body
    if answer.status == 201:
        seen["error"] = bool(seen.get("error"))
        extra = seen.get("user", {}).get("extra", {})
        extra.pop("authentication.kubernetes.io/credential-id", None)
    api.record(f"{what}: review for {audiences}", [answer.status, seen])


async def dies(api: Api, given: str, what: str) -> None:
    """Wait until a token is refused: the real server remembers good ones for ten seconds."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": given},
    }
    for _ in range(200):
        answer = await api.request("POST", REVIEWS, body)
        if not answer["status"].get("authenticated"):
            break
        await asyncio.sleep(0.1)
    await who(api, given, what)


def bound(kind: str, name: str, uid: str = "") -> Body:
    return {"apiVersion": "v1", "kind": kind, "name": name, **({"uid": uid} if uid else {})}


@scenario
async def test_token_names_its_account(api: Api) -> None:
    await account(api)
    await who(api, await token(api), "plain")
    await who(api, await token(api, expirationSeconds=86400, audiences=[]), "a day")
    await api.request("DELETE", api.at("serviceaccounts", "robot"))
    await token(api)


@scenario
async def test_token_is_for_its_audiences(api: Api) -> None:
    await account(api)
    given = await token(api, audiences=["vault", "other"])
    await who(api, given, "for others")
    await review(api, given, "for others", "vault")
    await review(api, given, "for others", "unknown", "other")
    await review(api, given, "for others", "https://kubernetes.default.svc")
    plain = await token(api)
    await review(api, plain, "for the server", "vault")
    await review(api, plain, "for the server", "vault", "https://kubernetes.default.svc")


@scenario
async def test_invalid_token_requests_are_refused(api: Api) -> None:
    await account(api)
    for seconds in (0, 599, 600, -1, 2**32 + 1):
        await token(api, expirationSeconds=seconds)
    await token(api, "none")
    await token(api, boundObjectRef=bound("Pod", "none"))
    await token(api, boundObjectRef=bound("Node", "none"))
    await token(api, boundObjectRef=bound("Secret", "none"))
    await token(api, boundObjectRef=bound("ConfigMap", "none"))
    await api.request("POST", api.at("pods"), pod("stranger"))
    await token(api, boundObjectRef=bound("Pod", "stranger"))
    path = f"{api.at('serviceaccounts', 'robot')}/token"
    await api.get(path)
    await api.put(path, {})
    named = {"metadata": {"name": "other"}, "spec": {}}
    await api.post(path, named)


async def _robot_pod(api: Api, name: str, node: str = "") -> str:
    body = pod(name, node)
    body["spec"]["serviceAccountName"] = "robot"
    return (await api.request("POST", api.at("pods"), body)).uid


@scenario
async def test_token_of_a_pod_names_its_node_and_ends_with_it(api: Api) -> None:
    await account(api)
    node = f"node-{api.namespace}"
    await api.request("POST", "/api/v1/nodes", {"metadata": {"name": node}})
    uid = await _robot_pod(api, "one", node)
    given = await token(api, boundObjectRef=bound("Pod", "one", uid))
    await who(api, given, "bound")
    await token(api, boundObjectRef=bound("Pod", "one", "00000000-0000-0000-0000-000000000000"))
    await _robot_pod(api, "lost", "no-such-node")
    lost = await token(api, boundObjectRef=bound("Pod", "lost"))
    await who(api, lost, "of a node that is not there")
    await _robot_pod(api, "waiting")
    waiting = await token(api, boundObjectRef=bound("Pod", "waiting"))
    await who(api, waiting, "of a pod without a node")
    await api.request("DELETE", f"/api/v1/nodes/{node}")
    await review(api, given, "without its node")
    await api.request("DELETE", f"{api.at('pods', 'one')}?gracePeriodSeconds=0")
    await _robot_pod(api, "one", node)
    await api.request("DELETE", f"{api.at('pods', 'waiting')}?gracePeriodSeconds=0")
    await dies(api, given, "with another pod of that name")
    await dies(api, waiting, "without its pod")


@scenario
async def test_token_of_a_secret_or_node_ends_with_it(api: Api) -> None:
    await account(api)
    node = f"node-{api.namespace}"
    await api.request("POST", "/api/v1/nodes", {"metadata": {"name": node}})
    await api.request("POST", api.at("secrets"), {"metadata": {"name": "s"}})
    given = {
        kind: await token(api, boundObjectRef=bound(kind, name))
        for kind, name in (("Node", node), ("Secret", "s"))
    }
    for kind, one in given.items():
        await who(api, one, kind)
    # At once: the real server remembers a good token for ten seconds.
    for path in (f"/api/v1/nodes/{node}", api.at("secrets", "s")):
        await api.request("DELETE", path)
    for kind, one in given.items():
        await dies(api, one, f"without its {kind}")


@scenario
async def test_token_ends_with_its_account(api: Api) -> None:
    await account(api)
    given = await token(api)
    await who(api, given, "before")
    await api.request("DELETE", api.at("serviceaccounts", "robot"))
    await dies(api, given, "without it")
    await account(api)
    await who(api, given, "with another of that name")


@scenario
async def test_changed_tokens_are_refused(api: Api) -> None:
    await account(api)
    given = await token(api)
    head, body, mark = given.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    for what, changed in (
        ("no signature", f"{head}.{body}."),
        ("none", f"{none}.{body}."),
        ("other body", f"{head}.{body[:-4]}AAAA.{mark}"),
        ("cut", given[:-10]),
        ("three dots", "..."),
        ("rubbish", "a.b.c"),
    ):
        await who(api, changed, what)


@scenario
async def test_account_has_the_rights_of_its_role(api: Api) -> None:
    await account(api)
    given = await token(api)
    await api.get(api.at("pods"), token=given)
    group = "rbac.authorization.k8s.io"
    await api.request(
        "POST",
        api.at("roles"),
        {
            "metadata": {"name": "r"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
        },
    )
    await api.request(
        "POST",
        api.at("rolebindings"),
        {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": api.namespace}],
        },
    )
    # The real server follows roles and bindings by watches.
    await api.until(api.at("pods"), lambda answer: answer.status == HTTPStatus.OK, token=given)
    await api.get(api.at("pods"), token=given)
    await api.get("/api/v1/pods", token=given)


@scenario
async def test_static_tokens_are_reviewed(api: Api) -> None:
    for given in ("conformance-admin", "conformance-bob", "wrong"):
        await review(api, given, given)
        await review(api, given, given, "vault")
    await api.post(REVIEWS, {"spec": {}})


@scenario
async def test_discovery_lists_tokens(api: Api) -> None:
    answer = await api.request("GET", "/api/v1")
    found = [entry for entry in answer["resources"] if entry["name"] == "serviceaccounts/token"]
    api.record("tokens", found)


@scenario
async def test_issuer_is_described(api: Api) -> None:
    answer = await api.request("GET", "/.well-known/openid-configuration")
    api.record("issuer", [answer.status, answer["issuer"], sorted(answer.body)])
    answer = await api.request("GET", "/openid/v1/jwks", accept="*/*")
    kind = answer.headers["content-type"]
    api.record("keys", [answer.status, kind, [key["use"] for key in answer["keys"]]])
    await account(api)
    given = await token(api)
    header = given.partition(".")[0]
    head = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    api.record("key of a token", head["kid"] in [key["kid"] for key in answer["keys"]])
    await api.get("/openid/v1/jwks", token="conformance-bob")
    answer = await api.request("GET", "/openid/v1/jwks", accept="*/*", token=given)
    api.record("for an account", answer.status)
