"""`cobalt operator` as a process, and the users that call it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from tests.conformance.real import TOKEN
from tests.integration.operator.conftest import DEADLINE, REAL
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.access import (
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    TokenRequest,
    TokenRequestSpec,
)
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.rbac import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    RoleRef,
    ServiceAccount,
    Subject,
)
from hypercobalt.runtime import Kube

ADMIN = TOKEN if REAL else "secret-admin"
"""An administrator's token for the API server."""
FREE, ELSEWHERE = "127.0.0.1:0", "127.0.0.2:0"  # one address would have one page for both
LEASE = "4c28796a.cloud.sap"


async def caller(kube: Kube, audience: str, *paths: str) -> str:
    """A token for an audience, of a new ServiceAccount that may do what the pages serve there."""
    name, space = f"caller-{uuid.uuid4().hex[:8]}", "default"
    meta, group = ObjectMeta(name=name, namespace=space), "rbac.authorization.k8s.io"
    await kube.create(ServiceAccount(metadata=meta))
    if paths:
        rules = (PolicyRule(nonResourceURLs=paths, verbs=("get", "post")),)
        await kube.create(ClusterRole(metadata=ObjectMeta(name=name), rules=rules))
        role = RoleRef(apiGroup=group, kind="ClusterRole", name=name)
        bound = (Subject(kind="ServiceAccount", name=name, namespace=space),)
        binding = ClusterRoleBinding(metadata=ObjectMeta(name=name), roleRef=role, subjects=bound)
        await kube.create(binding)
    user = f"system:serviceaccount:{space}:{name}"

    async def may(path: str) -> bool:
        about = NonResourceAttributes(path=path.replace("*", "any"), verb="post")
        spec = SubjectAccessReviewSpec(user=user, nonResourceAttributes=about)
        return (await kube.create(SubjectAccessReview(spec=spec))).status.allowed

    for path in paths:  # a refusal would be kept for a while
        await eventually(partial(may, path))
    request = TokenRequest(metadata=meta, spec=TokenRequestSpec(audiences=(audience,)))
    return (await kube.create_in(ServiceAccount, name, "token", request, space)).status.token


class Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, object]] = []
        self.rest: asyncio.Task[bytes] | None = None

    async def stands_by(self) -> None:
        """Wait until it serves; what it logs from then on is read, and forgotten."""
        await self.line("endpoints_opened")
        assert self.process.stderr is not None
        self.rest = asyncio.create_task(self.process.stderr.read())

    async def line(self, event: str) -> dict[str, object]:
        """The next line of an event."""
        assert self.process.stderr is not None
        async with asyncio.timeout(DEADLINE):
            while True:
                text = await self.process.stderr.readline()
                assert text, f"ended after {self.lines}"
                self.lines.append(json.loads(text))
                if self.lines[-1]["event"] == event:
                    return self.lines[-1]


@contextlib.asynccontextmanager
async def cobalt(*arguments: str, compute: str = "none") -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("cobalt")),
        "operator",
        f"--compute={compute}",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    made = Process(process)
    try:
        yield made
    finally:
        if process.returncode is None:
            process.terminate()  # it releases its lease, or the next one waits for the expiry
        await asyncio.wait_for(made.rest or process.communicate(), DEADLINE)
        await asyncio.wait_for(process.wait(), DEADLINE)
