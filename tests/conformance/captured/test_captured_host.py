"""An attacker that holds one credential of one host harms that host alone: docs/security.md.

Short and the same each time; `ATTACKER_STEPS=20000` is long and random, on each server. It prints
the seed of each ten runs: `ATTACKER_SEED` repeats them from there. Hypothesis keeps what failed in
its database besides.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.conformance.captured import credentials
from tests.conformance.captured.credentials import NODE_AGENT
from tests.conformance.captured.known import BY_NAME, KNOWN, Informed
from tests.conformance.captured.machine import CapturedHost
from tests.conformance.captured.put_back import Change, without_names, without_writers
from tests.conformance.captured.site import CAPTURED, OTHERS
from tests.conformance.captured.steps import Known
from tests.conformance.captured.virtual_time import SkippingLoop, counted
from tests.conformance.hosts import BY_NAME as BY_KIND
from tests.conformance.prepare import call, install_definitions
from tests.conformance.real import Server
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS
from tests.sockets import left_to_the_collector

LONG = "ATTACKER_STEPS" in os.environ
STEPS = int(os.environ.get("ATTACKER_STEPS", "0"))
SEED = int(os.environ.get("ATTACKER_SEED", "0")) or time.time_ns() // 10**9
"""Seed of the first ten runs; the next ten have the next number."""
EACH = 60 if LONG else 30
"""Rules of one run; most write several times. Its site costs as much as some twenty of them."""
RUNS = {"embedded": 2, "real": 1}
"""Where no number of steps is given: the known attacks are done on both servers besides."""

pytestmark = pytest.mark.timeout(0 if LONG else 300)


@pytest.fixture(autouse=True)
def abandoned_sockets() -> Iterator[None]:
    """Operators are stopped in the middle of their requests."""
    with left_to_the_collector():
        yield


@pytest.fixture(scope="module", params=["embedded", "real"])
def captured(
    request: pytest.FixtureRequest, servers: tuple[Server, Server]
) -> Iterator[type[CapturedHost]]:
    found = servers[0 if request.param == "real" else 1]
    install_definitions(found, [CERT_MANAGER, CERTIFICATE_REQUESTS])
    Informed.server, Informed.users = found, credentials.install(found)
    try:
        with counted(), asyncio.Runner(loop_factory=lambda: SkippingLoop(found.pids)) as runner:
            Informed.runner = runner
            yield Informed
    finally:
        credentials.remove(found)


def test_every_host_is_in_service_at_first_whatever_others_have_left(
    captured: type[CapturedHost],
) -> None:
    """All tests share the servers: a host of theirs with an Eviction is not this site's."""
    kinds = [BY_KIND["kvm.cloud.sap", plural] for plural in ("hypervisors", "evictions")]
    for kind in kinds:
        call(captured.server, "POST", kind.path(), kind.body(OTHERS[0]))
    machine = captured()
    try:
        machine.begins(NODE_AGENT, "nova")
        there = machine.effects.before
    finally:
        machine.teardown()
    hosts = {key: it["conditions"] for key, it in there.items() if key.endswith(" Hypervisor")}
    disabled = {key: conditions["HypervisorDisabled"] for key, conditions in hosts.items()}
    assert disabled == {f"{name} Hypervisor": "False/Succeeded" for name in OTHERS}
    assert [key for key in there if key.startswith(f"{OTHERS[0]} Eviction")] == []


@pytest.mark.parametrize("group", KNOWN, ids=lambda group: group[-1].name)
def test_known_attacks_have_no_effect(
    captured: type[CapturedHost], group: tuple[Known, ...]
) -> None:
    machine = captured()
    try:
        machine.begins(group[0].credential, group[0].compute)
        for known in group:
            machine.credential = known.credential
            before = len(machine.site.deeds.done)
            known.told(machine)
            asked = {
                deed.what for deed in machine.site.deeds.done[before:] if deed.host == CAPTURED
            }
            assert not known.asks or known.asks in asked, f"{known.name} was not tried"
    finally:
        machine.teardown()


@pytest.mark.parametrize("captured", ["embedded"], indirect=True)
@pytest.mark.parametrize(
    ("change", "name", "times"),
    [
        # It is dead by its own status, and then answers what that may have ordered.
        pytest.param(without_writers, "by its own word", 2, id="its own word"),
        pytest.param(without_names, "a name of a recovery", 1, id="the name of a recovery"),
    ],
)
def test_operator_holds_where_no_policy_does(
    captured: type[CapturedHost], change: Change, name: str, times: int
) -> None:
    known = BY_NAME[name]
    machine = captured()
    credentials.install(captured.server, change)
    try:
        machine.begins(known.credential, known.compute)
        for _ in range(times):
            known.told(machine)
    finally:
        try:
            machine.teardown()
        finally:
            captured.users = credentials.install(captured.server)


def test_credential_of_one_host_harms_that_host_alone(captured: type[CapturedHost]) -> None:
    if not LONG:
        _run(captured, RUNS[captured.server.name])
        return
    first, began, runs = captured.steps, time.monotonic(), 0
    captured.ran.clear()
    while (done := captured.steps - first) < STEPS:
        _told(captured, f"{done} of {STEPS} steps, seed {SEED + runs}")
        _run(seed(SEED + runs)(captured), 10)
        runs += 1
    seconds = time.monotonic() - began
    _told(captured, f"{done} steps in {seconds:.0f} s, seeds {SEED} to {SEED + runs - 1}")


def _told(captured: type[CapturedHost], what: str) -> None:
    print(f"{captured.server.name}: {what}; {dict(captured.ran.most_common())}", flush=True)  # noqa: T201 - with -s


def _run(captured: type[CapturedHost], examples: int) -> None:
    run_state_machine_as_test(
        captured,
        settings=settings(
            max_examples=examples,
            stateful_step_count=EACH,
            derandomize=not LONG,
            deadline=None,
            print_blob=True,
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
