"""CustomResourceDefinitions that a scenario installs."""

from __future__ import annotations

from tests.conformance.samples import DEFINITIONS
from tests.conformance.script import Answer, Api
from tests.conformance.wire import Body

OPEN: Body = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def group_of(api: Api) -> str:
    """Return a group that only this scenario uses."""
    return f"{api.namespace[-6:]}.example.com"


async def install(api: Api, body: Body) -> str:
    """Create the CRD and wait until its objects are served; return the path of the CRD."""
    spec = body["spec"]
    path = f"{DEFINITIONS}/{body['metadata']['name']}"
    if (await api.post(DEFINITIONS, body)).status != 201:
        return path
    await established(api, path)
    version = next(v["name"] for v in spec["versions"] if v["served"])
    objects = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    await api.until(objects, lambda answer: answer.status == 200)
    return path


async def established(api: Api, path: str) -> None:
    def check(answer: Answer) -> bool:
        rows = answer["status"].get("conditions") or [] if answer.status == 200 else []
        return any((row["type"], row["status"]) == ("Established", "True") for row in rows)

    await api.until(path, check)
