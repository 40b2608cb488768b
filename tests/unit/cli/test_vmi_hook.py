"""The hook of the embedded server answers as an API server whose webhook is virt-api."""

from __future__ import annotations

import pytest
from tests.verdicts import StandIn, instance

from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.hooks import HookReview
from hypercobalt.apiserver.requests.request import NODE_NAME, User
from hypercobalt.cli.vmi_hook import VMIHook
from hypercobalt.virt.api.webhooks import NODE_NAME_EXTRA
from hypercobalt.vmi.review import JsonObject, RequestUser

JANE = User("jane", groups=("g",), extra={NODE_NAME: ("node-a",)})


def review(obj: JsonObject, old: JsonObject | None = None) -> HookReview:
    return HookReview(obj, old, JANE, dry_run=False)


async def test_object_is_mutated_by_the_user_who_writes() -> None:
    admission = StandIn()
    hook = VMIHook(admission)
    assert hook.kind == "virtualmachineinstances.kubevirt.io"
    assert await hook.mutate(review(instance())) == instance(seen="yes")
    await hook.validate(review(instance(), instance("old")))
    create, update = admission.seen
    assert (create.operation, create.old) == ("CREATE", None)
    assert (update.operation, update.old) == ("UPDATE", instance("old"))
    assert create.requester == RequestUser("jane", ("g",), "node-a")
    assert NODE_NAME == NODE_NAME_EXTRA


async def test_refusal_of_the_mutator_is_a_webhooks() -> None:
    with pytest.raises(StatusError) as refused:
        await VMIHook(StandIn()).mutate(review(instance(domain=False)))
    assert refused.value.body() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'admission webhook "virtualmachineinstances-mutator.kubevirt.io" denied the '
        "request: spec.domain is required",
        "reason": "Invalid",
        "details": {
            "causes": [
                {
                    "field": "spec.domain",
                    "message": "spec.domain is required",
                    "reason": "FieldValueRequired",
                }
            ]
        },
        "code": 422,
    }


@pytest.mark.parametrize("old", [None, instance()])
async def test_refusal_of_a_validator_names_it(old: JsonObject | None) -> None:
    with pytest.raises(StatusError) as refused:
        await VMIHook(StandIn()).validate(review(instance(bad="1"), old))
    operation = "create" if old is None else "update"
    assert f"virtualmachineinstances-{operation}-validator.kubevirt.io" in refused.value.message
