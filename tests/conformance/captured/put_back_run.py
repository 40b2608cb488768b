"""The machine finds each hole that is put back.

It takes an hour, and runs when it is named: `pytest -s tests/conformance/captured/put_back_run.py`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.conformance.captured import credentials
from tests.conformance.captured.effects import EffectError
from tests.conformance.captured.known import KNOWN, Informed
from tests.conformance.captured.machine import CapturedHost
from tests.conformance.captured.put_back import MUTANTS, Mutant
from tests.conformance.captured.virtual_time import SkippingLoop, counted
from tests.conformance.prepare import call, install_definitions, own_definitions
from tests.conformance.real import Server
from tests.conformance.samples import DEFINITIONS
from tests.conformance.wire import Body
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS
from tests.sockets import left_to_the_collector

pytestmark = pytest.mark.timeout(0)


class _FoundError(BaseException):
    """An effect: no exception of a test, which Hypothesis would repeat, and find to be fickle."""


RUNS = 80
"""Runs of 40 rules each, until the effect counts as not found."""


@pytest.fixture(params=["embedded", "real"])
def server(
    request: pytest.FixtureRequest, mutant: Mutant, servers: tuple[Server, Server]
) -> Server:
    if request.param not in mutant.servers:
        pytest.skip(f"the {request.param} server takes no such attack")
    found = servers[0 if request.param == "real" else 1]
    install_definitions(found, [CERT_MANAGER, CERTIFICATE_REQUESTS])
    return found


@contextmanager
def changed_definitions(server: Server, mutant: Mutant) -> Iterator[None]:
    """Have the mutant's CRDs on the server."""
    if mutant.definitions is None:
        yield
        return
    changed = own_definitions()
    mutant.definitions(changed)
    _put(server, changed)
    try:
        yield
    finally:
        _put(server, own_definitions())


def _put(server: Server, bodies: list[Body]) -> None:
    for body in bodies:
        spec: Body = {"spec": body["spec"]}
        path = f"{DEFINITIONS}/{body['metadata']['name']}"
        there = call(server, "GET", path)
        call(server, "PUT", path, {**there, **spec})
    install_definitions(server, bodies)  # once they are served again


@contextmanager
def opened(mutant: Mutant, server: Server) -> Iterator[type[CapturedHost]]:
    """Put a hole back, and yield a machine that ends at the first effect."""

    class Machine(Informed):
        credentials = (mutant.credential,)
        steps = 0

        def _step(self, work: Coroutine[None, None, object]) -> None:
            try:
                super()._step(work)
            except EffectError as error:
                if re.search(mutant.effect, str(error)):
                    raise _FoundError(str(error)) from error
                self.effects.found.clear()  # what else comes of it
                self.failed = False

    with (
        left_to_the_collector(),
        changed_definitions(server, mutant),
        mutant.applied() as change,
        counted(),
    ):
        Machine.users = credentials.install(server, change)
        Machine.server = server
        try:
            with asyncio.Runner(loop_factory=lambda: SkippingLoop(server.pids)) as runner:
                Machine.runner = runner
                yield Machine
        finally:
            credentials.remove(server)


def told(mutant: Mutant, server: Server, machine: type[CapturedHost], found: str, by: str) -> None:
    """Say how a hole was found."""
    where = f"{mutant.credential} | {server.name} | {by} | {machine.steps} steps"
    print(f"{mutant.hole} | {mutant.name} | {where} | {found[:160]}")  # noqa: T201 - what is measured


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_hole_that_is_put_back_is_found(server: Server, mutant: Mutant) -> None:
    with opened(mutant, server) as kind, pytest.raises(_FoundError) as caught:
        run_state_machine_as_test(
            kind,
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
    told(mutant, server, kind, str(caught.value), "the machine")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_known_attack_has_its_effect_again(server: Server, mutant: Mutant) -> None:
    with opened(mutant, server) as kind, pytest.raises(_FoundError) as caught:
        _attack(mutant, kind)
    told(mutant, server, kind, str(caught.value), "a known attack")


def _attack(mutant: Mutant, kind: type[CapturedHost]) -> None:
    """Do the known attacks by which it was found, with those that they share a site with."""
    groups = [group for group in KNOWN if any(known.name in mutant.known for known in group)]
    assert groups, mutant.known
    for group in groups:
        machine = kind()
        try:
            machine.begins(group[0].credential, group[0].compute)
            for known in group:
                machine.credential = known.credential
                known.told(machine)
        except _FoundError:
            machine.failed = True
            raise
        finally:
            machine.teardown()
