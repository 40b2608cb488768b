"""Definitions in groups of the Kubernetes project need the approval that their annotation names."""

from __future__ import annotations

from tests.conformance.samples import DEFINITIONS, definition
from tests.conformance.script import Api, scenario

APPROVAL = "api-approved.kubernetes.io"
GROUPS = ("{}.k8s.io", "{}.kubernetes.io", "{}.x-k8s.io", "{}.k8s.io.example.com")
VALUES = (
    "https://github.com/kubernetes/enhancements/pull/1111",
    "unapproved, experimental",
    "unapproved",
    "yes",
    "",
    "https://",
    "/path",
    "x://y",
)


@scenario
async def test_definition_of_a_protected_group_needs_approval(api: Api) -> None:
    for form in GROUPS:
        body = definition("widgets", "Widget", {"type": "object"}, group=form.format(api.namespace))
        await api.post(f"{DEFINITIONS}?dryRun=All", body)
        for value in VALUES:
            body["metadata"]["annotations"] = {APPROVAL: value}
            await api.post(f"{DEFINITIONS}?dryRun=All", body)


@scenario
async def test_approval_is_a_condition_and_may_not_be_lost(api: Api) -> None:
    body = definition("widgets", "Widget", {"type": "object"}, group=f"{api.namespace}.k8s.io")
    one = f"{DEFINITIONS}/{body['metadata']['name']}"
    body["metadata"]["annotations"] = {APPROVAL: "unapproved, experimental"}
    await api.request("POST", DEFINITIONS, body)
    kind = "KubernetesAPIApprovalPolicyConformant"

    async def settled(reason: str) -> None:
        await api.until(
            one,
            lambda a: any(
                c["type"] == kind and c["reason"] == reason
                for c in a["status"].get("conditions") or ()
            ),
        )
        found = await api.request("GET", one)
        conditions = [c for c in found["status"]["conditions"] if c["type"] == kind]
        api.record("the condition", [{**c, "lastTransitionTime": "<time>"} for c in conditions])

    await settled("UnapprovedAnnotation")
    approved = {"metadata": {"annotations": {APPROVAL: VALUES[0]}}}
    await api.request("PATCH", one, approved, content_type="application/merge-patch+json")
    await settled("ApprovedAnnotation")
    for value in (None, "yes"):
        await api.patch(f"{one}?dryRun=All", {"metadata": {"annotations": {APPROVAL: value}}})
    await api.request("DELETE", one)
