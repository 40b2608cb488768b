"""The shell around the rules of `onboarding` and `smoke_test`: reads, acts, sets conditions.

What is being waited for is always in the message of `Onboarding`, errors of OpenStack included.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hypercobalt.api.conditions import Condition, get_condition, is_true
from hypercobalt.api.core import Node
from hypercobalt.api.duration import short_duration
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import ONBOARDING_STAGES, OnboardingReason
from hypercobalt.api.hypervisor_status import SmokeTest
from hypercobalt.compute.errors import ComputeError, RefusedError
from hypercobalt.compute.model import Host, TestServer
from hypercobalt.compute.port import ComputeService, SmokeTests
from hypercobalt.logs import get_logger
from hypercobalt.operator.lifecycle import onboarding, service, smoke_test
from hypercobalt.operator.lifecycle.checks import probed, read_switch, unmet, unreported
from hypercobalt.operator.lifecycle.onboarding import Act, OnboardingPlan, Skip
from hypercobalt.operator.lifecycle.reads import Reads
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.lifecycle.smoke_test import SmokeTestAction
from hypercobalt.operator.lifecycle.step import PATIENCE, LifecycleFacts, StepOutcome, Type
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL, ZONE_LABEL
from hypercobalt.runtime import Cache, Kube

log = get_logger(__name__)

_Why = OnboardingReason
_CHECKS: Final = "checks"
_BEFORE_TEST: Final = (None, _Why.INITIAL, _Why.ABORTED)


class Onboarding:
    """Step of onboarding: one pass goes one step."""

    name = onboarding.NAME

    def __init__(
        self, kube: Kube, service: ComputeService, nodes: Cache[Node], settings: LifecycleSettings
    ) -> None:
        self._kube, self._service = kube, service
        self._nodes, self._settings = nodes, settings
        self.reads = Reads(
            conditions=frozenset(
                {
                    Type.LIBVIRT_CONNECTION,
                    Type.AGENT_REPORTING,
                    Type.HA_ENABLED,
                    *probed(settings),
                }
            ),
            fields=frozenset(
                {
                    "spec.lifecycleEnabled",
                    "spec.maintenance",
                    "spec.skipTests",
                    "spec.highAvailability",
                    "metadata.deletionTimestamp",
                }
            ),
            labels=frozenset({HOSTNAME_LABEL, ZONE_LABEL}),
            at_times={
                "status.libVirtVersion": _is_connected,
                "metadata.generation": _has_failed,
            },
        )

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        plan = OnboardingPlan()
        try:
            skip = await self._skip(facts)
            checked, due = "", onboarding.is_checked(facts, self._settings)
            if due:
                checked = await self._unmet(facts, skip)
            if due and not checked:  # the switch is read once in a pass
                facts = facts.with_compared(_CHECKS)
            grouped = self._service.aggregates is not None
            plan = onboarding.decide(facts, skip, checked, self._settings, grouped=grouped)
            return await self._act(facts, plan)
        except ComputeError as error:
            return _failed(facts, plan, error)

    async def _skip(self, facts: LifecycleFacts) -> Skip | None:
        """Return why the host is not tested; None when it is, or when that does not matter now."""
        found, host = facts.condition(Type.ONBOARDING), facts.host
        over = facts.holds(Type.ONBOARDING, "False", _Why.SUCCEEDED)
        if host is None or over or not onboarding.may_go_on(facts):
            return None
        tests = None if facts.hypervisor.spec.skipTests else self._service.smoke_tests
        if (found.reason if found else None) in _BEFORE_TEST and host.servers:
            # The test project is not read where no test is: it may not exist.
            ours = {s.id for s in await tests.find(_name(facts, host))} if tests else set[str]()
            guests = [server for server in host.servers if server not in ours]
            if guests:
                return Skip(f"{len(guests)} servers run here already", stays=True)
        if facts.hypervisor.spec.skipTests:
            return Skip("the Node's label is skip-tests")
        return Skip(f"{self._service.name} has none") if tests is None else None

    async def _unmet(self, facts: LifecycleFacts, skip: Skip | None) -> str:
        name, zoned = facts.hypervisor.metadata.name, self._service.aggregates is not None
        stays = skip is not None and skip.stays
        initial = facts.holds(Type.ONBOARDING, "True", _Why.INITIAL)
        if zoned and initial and not stays and not facts.hypervisor.metadata.labels.get(ZONE_LABEL):
            return f"the Node has no label {ZONE_LABEL}, which names the zone to test in"
        if waits := unreported(facts, self._settings):
            return waits
        switch = None
        if (_CHECKS,) not in facts.compared:
            switch = await read_switch(self._kube, name, self._settings.ovs_namespace)
        return unmet(facts, self._nodes.get(name), switch, self._settings)

    async def _act(self, facts: LifecycleFacts, plan: OnboardingPlan) -> StepOutcome:
        host = facts.host
        if plan.act is Act.TEST and host is not None and self._service.smoke_tests is not None:
            return await self._test(facts, host, self._service.smoke_tests)
        if plan.act is Act.CLEAN_UP:
            await self._clean_up(facts)
            facts = facts.with_status(smokeTest=None)
        if plan.act is Act.ENABLE and host is not None:
            if service.differs(host, service.DesiredService(enabled=True)):
                log.info("enabling_host", hypervisor=facts.hypervisor.metadata.name)
                await self._service.hosts.enable(host)
                enabled = replace(host, enabled=True, disabled_reason="", forced_down=False)
                facts = replace(facts, host=enabled)
            facts = facts.with_status(smokeTest=None)
        if (found := plan.condition) is not None:
            of_spec = found[0] == "False"
            facts = _set(facts, *found, of_spec=of_spec, waits_for=plan.waits_for)
        return StepOutcome(facts, plan.look_again)

    async def _clean_up(self, facts: LifecycleFacts) -> None:
        tests = self._service.smoke_tests
        if tests is None:
            return
        for name in _names(facts):
            for server in await tests.find(name):
                log.info("deleting_test_server", server=server.id, name=name)
                await tests.delete(server)

    async def _test(self, facts: LifecycleFacts, host: Host, tests: SmokeTests) -> StepOutcome:
        name, test = _name(facts, host), facts.hypervisor.status.smokeTest or SmokeTest()
        found = await tests.find(name)
        console = await self._console(tests, smoke_test.wants_console(found, test))
        plan = smoke_test.decide(found, test, console, self._settings, facts.now)
        for server in plan.delete:
            log.info("deleting_test_server", server=server.id, name=name)
            await tests.delete(server)
        progress = plan.test
        if plan.next is SmokeTestAction.CREATE:
            zone = facts.hypervisor.metadata.labels.get(ZONE_LABEL, "")
            log.info("booting_test_server", hypervisor=facts.hypervisor.metadata.name, name=name)
            try:
                made = await tests.create(name, host.name, zone)
            except RefusedError as error:
                progress = SmokeTest(progress.attempts, None, str(error))
            else:
                progress = SmokeTest(progress.attempts, made.id, progress.lastFailure)
        if plan.next is SmokeTestAction.GIVEN_UP:
            text = f"{plan.message}; tried again after {short_duration(self._settings.retry_pause)}"
            left = plan.test if plan.delete else None  # what remains is deleted by a later pass
            facts = facts.with_status(smokeTest=left)
            given_up = _set(facts, "False", _Why.ABORTED, text, of_spec=True)
            return StepOutcome(given_up, self._settings.retry_pause)
        if plan.next is SmokeTestAction.PASSED:
            passed = facts.with_status(smokeTest=None)
            text = f"{plan.message}; handing over"
            return StepOutcome(_set(passed, "True", _Why.HANDOVER, text))
        after = _set(facts.with_status(smokeTest=progress), "True", _Why.TESTING, plan.message)
        return StepOutcome(after, self._settings.poll, final=plan.next is SmokeTestAction.CREATE)

    async def _console(self, tests: SmokeTests, server: TestServer | None) -> str | None:
        if server is None:
            return None
        try:
            return await tests.console(server, smoke_test.CONSOLE_LINES)
        except ComputeError as error:
            # The limit for the console counts for one that cannot be read, too.
            log.warning("console_unreadable", server=server.id, error=str(error))
            return None


def _failed(facts: LifecycleFacts, plan: OnboardingPlan, error: ComputeError) -> StepOutcome:
    found, waits_for = facts.condition(Type.ONBOARDING), type(error).__name__
    if plan.act is Act.CLEAN_UP and plan.condition and plan.condition[0] == "False":
        text = f"{plan.condition[2]}; cannot delete the test servers yet: {error}"
        after = _set(facts, "True", _Why.ABORTED, text, waits_for=waits_for)
    elif found is None:
        after = _set(facts, "True", _Why.INITIAL, f"Cannot begin yet: {error}")
    else:
        text = f"Cannot continue yet: {error}"
        after = _set(facts, found.status, found.reason, text, waits_for=waits_for)
    return StepOutcome(after, PATIENCE, error)


def _set(
    facts: LifecycleFacts,
    status: str,
    reason: str,
    message: str,
    *,
    of_spec: bool = False,
    waits_for: str = "",
) -> LifecycleFacts:
    found = facts.condition(Type.ONBOARDING)
    known = found is None or _is_stage(found)
    ONBOARDING_STAGES.check((found.reason if found else None) if known else "", reason)
    return facts.with_condition(
        Type.ONBOARDING, status, reason, message, of_spec=of_spec, waits_for=waits_for
    )


def _is_stage(condition: Condition) -> bool:
    """Whether the rules may have set the stage: not a person, nor another operator."""
    never = {"True": {_Why.SUCCEEDED}, "False": {_Why.INITIAL, _Why.TESTING, _Why.HANDOVER}}
    return condition.reason not in never.get(condition.status, set(_Why))


def _is_connected(hypervisor: Hypervisor) -> bool:
    return is_true(hypervisor.conditions, Type.LIBVIRT_CONNECTION)


def _has_failed(hypervisor: Hypervisor) -> bool:
    """Whether any change of the spec begins the onboarding again."""
    found = get_condition(hypervisor.conditions, Type.ONBOARDING)
    return found is not None and found.reason == _Why.ABORTED


def _name(facts: LifecycleFacts, host: Host) -> str:
    return smoke_test.server_name(facts.hypervisor, host.name)


def _names(facts: LifecycleFacts) -> tuple[str, ...]:
    """Return the possible names of the Hypervisor's test server, also when its host is gone."""
    hypervisor = facts.hypervisor
    hosts = [facts.host.name] if facts.host else []
    label = hypervisor.metadata.labels.get(HOSTNAME_LABEL, hypervisor.metadata.name)
    hosts += [hypervisor.metadata.name, label, label.partition(".")[0]]
    return tuple(dict.fromkeys(smoke_test.server_name(hypervisor, host) for host in hosts))
