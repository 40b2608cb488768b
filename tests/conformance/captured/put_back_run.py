"""The machine finds each hole that is put back.

It takes an hour, and runs when it is named: `pytest -s tests/conformance/captured/put_back_run.py`.
"""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.conformance.captured import credentials
from tests.conformance.captured.effects import EffectError
from tests.conformance.captured.machine import CapturedHost
from tests.conformance.captured.put_back import MUTANTS, Mutant
from tests.conformance.captured.virtual_time import SkippingLoop, counted
from tests.conformance.prepare import install_definitions
from tests.conformance.real import Server
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS
from tests.sockets import left_to_the_collector

pytestmark = pytest.mark.timeout(0)

RUNS = 80
"""Of 40 rules each, until it counts as not found."""


@pytest.mark.parametrize("kind", ["embedded", "real"])
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_hole_that_is_put_back_is_found(
    servers: tuple[Server, Server], mutant: Mutant, kind: str
) -> None:
    server = servers[0 if kind == "real" else 1]
    install_definitions(server, [CERT_MANAGER, CERTIFICATE_REQUESTS])
    with left_to_the_collector(), mutant.applied() as change, counted():
        users = credentials.install(server, change)
        try:
            with asyncio.Runner(loop_factory=SkippingLoop) as runner:
                found = _found(server, users, runner, mutant)
        finally:
            credentials.remove(server)
    print(f"{mutant.hole}: {mutant.name}, on {server.name}: {found}")  # noqa: T201 - what is measured


def _found(
    server: Server,
    users: dict[str, credentials.User],
    runner: asyncio.Runner,
    mutant: Mutant,
) -> str:
    """The number of steps until the hole was found, and by which effect."""

    class Machine(CapturedHost):
        credentials = (mutant.credential,)
        steps = 0

    Machine.server, Machine.users, Machine.runner = server, users, runner
    with pytest.raises(EffectError) as caught:
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=RUNS,
                stateful_step_count=40,
                database=None,
                derandomize=True,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
    assert re.search(mutant.effect, str(caught.value)), str(caught.value)
    return f"{Machine.steps} steps: {str(caught.value)[:160]}"
