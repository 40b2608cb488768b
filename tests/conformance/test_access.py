"""Authentication and the review kinds: users, rights, refusals."""

from __future__ import annotations

from tests.conformance.real import TOKEN
from tests.conformance.samples import config_map
from tests.conformance.script import Api, scenario

REVIEWS = "/apis/authorization.k8s.io/v1"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BOB = "conformance-bob"


def review(kind: str, group: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}


@scenario
async def test_unknown_clients_are_refused(api: Api) -> None:
    for token in ("wrong", TOKEN[:-1], f"{TOKEN}x"):
        await api.get(api.at("configmaps"), token=token)
        await api.post(api.at("configmaps"), config_map("one"), token=token)
    await api.get("/nope", token="wrong")
    await api.get("/version", token="wrong")


@scenario
async def test_credentials_that_are_no_bearer_token_do_not_count(api: Api) -> None:
    for given in ("Basic YWRtaW46eA==", "Negotiate abc", f"Token {TOKEN}", f"bearer {TOKEN} x"):
        await api.get(api.at("configmaps"), token=given)
        await api.get("/livez", token=given)


@scenario
async def test_self_subject_review_names_the_user(api: Api) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    for token in (TOKEN, BOB):
        answer = await api.request("POST", WHO, body, token=token)
        info = answer["status"]["userInfo"]
        api.record(f"who is {info['username']}", [info["uid"], info["groups"]])


@scenario
async def test_access_reviews_allow_an_administrator_everything(api: Api) -> None:
    path = f"{REVIEWS}/selfsubjectaccessreviews"
    group = "authorization"
    for attributes in (
        {"verb": "get", "resource": "pods", "namespace": api.namespace},
        {"verb": "delete", "resource": "gadgets", "group": "conformance.example.com"},
        {"verb": "*", "resource": "*", "group": "*"},
    ):
        body = review("SelfSubjectAccessReview", group, resourceAttributes=attributes)
        answer = await api.request("POST", path, body)
        api.record("may I", [answer.status, answer["spec"], answer["status"]["allowed"]])
    other = {"verb": "get", "path": "/metrics"}
    body = review("SelfSubjectAccessReview", group, nonResourceAttributes=other)
    answer = await api.request("POST", path, body)
    api.record("may I", [answer.status, answer["status"]["allowed"]])
    await api.post(path, review("SelfSubjectAccessReview", group))
    await api.post(path, {"kind": "Other"})
    rules = review("SelfSubjectRulesReview", group, namespace=api.namespace)
    answer = await api.request("POST", f"{REVIEWS}/selfsubjectrulesreviews", rules)
    every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    api.record("my rules", [answer.status, every in answer["status"]["resourceRules"]])
