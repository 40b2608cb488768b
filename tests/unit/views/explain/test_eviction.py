"""An Eviction explained, state by state."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.eviction.made import BEGAN, NOW, entry, eviction
from tests.unit.views.explain.made import reporters

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionCheck, EvictionProgress, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.views.explain.eviction import ExplainedEviction, explain


def of(status: str, reason: str, message: str, **fields: object) -> Eviction:
    conditions = set_condition((), "Evicting", status, reason, message, now=BEGAN)
    return eviction(EvictionStatus(conditions=conditions, **fields))  # type: ignore[arg-type]


DISABLED = EvictionCheck(name="HostDisabled", result="Failed", message="hypervisor not disabled")
DOUBT = EvictionCheck(name="Instances", result="Warning", message="vm-a cannot be moved: a GPU")


def words(given: Eviction, host: Hypervisor | None = None) -> str:
    return "\n".join(explain(ExplainedEviction(given, host, NOW.now, reporters(NOW.now))).lines)


def test_claim_is_explained_with_its_way_out_though_the_eviction_is_over() -> None:
    given = of("False", "Failed", "eviction failed: 1 instance could not be moved")
    text = "Instance a of here waits: it runs on host kvm-9"
    conditions = set_condition(
        given.status.conditions, "InstanceClaimed", "True", "Claimed", text, now=BEGAN
    )
    claimed = replace(given, status=replace(given.status, conditions=conditions))
    assert "InstanceClaimed True/Claimed for 10m (operator): Instance a of here" in words(claimed)
    assert "find whose domain it is" in words(claimed)
    assert "InstanceClaimed" not in words(given)


FENCED = EvictionCheck(name="HostFenced", result="Pending", message="here is not proven dead")
HERE = Hypervisor(metadata=ObjectMeta(name="here"))


@pytest.mark.parametrize(
    ("given", "state", "text"),
    [
        pytest.param(eviction(), "New", "check that it runs, leads", id="not looked at"),
        pytest.param(
            of("True", "Running", "Running", checks=(DISABLED,)),
            "Running",
            "check HostDisabled Failed (operator): hypervisor not disabled\n"
            "    -> take the host out of service:\n"
            "       cobalt maintain here --reason '...'",
            id="not disabled",
        ),
        pytest.param(
            of("True", "Running", "Running", checks=(DOUBT,)),
            "Running",
            "a GPU\n    -> bring the named instances into a state in which they can be moved",
            id="in doubt",
        ),
        pytest.param(
            of("True", "Running", "waits; Nova does not answer"),
            "Running",
            "Evicting True/Running for 10m (operator): waits; Nova does not answer",
            id="waiting for Nova",
        ),
        pytest.param(
            of(
                "True",
                "Running",
                "Running",
                instances=(
                    entry("a", "Migrating", name="web", target="x", attempts=2, startedAt=BEGAN),
                ),
            ),
            "Running",
            "Migrating (1):\n  - web (a), to x, for 10m, attempt 2",
            id="on its way",
        ),
        pytest.param(
            of(
                "True",
                "Running",
                "Running",
                progress=EvictionProgress(
                    total=3, done=1, estimatedCompletion=NOW.now + timedelta(seconds=90)
                ),
            ),
            "Running",
            "1 of 3 have left; the last one is expected to leave in 90s",
            id="how long it takes",
        ),
        pytest.param(
            of(
                "False",
                "Failed",
                "failed",
                instances=(entry("b", "Failed", message="is suspended: resume it"),),
            ),
            "Failed",
            "Given up (1):\n  - b: is suspended: resume it",
            id="failed, with each instance",
        ),
        pytest.param(of("False", "Failed", "failed"), "Failed", "cobalt evict here", id="again"),
        pytest.param(
            of("False", "Cancelled", "deleted"), "Cancelled", "does not count as", id="cancelled"
        ),
    ],
)
def test_explanation_names_the_state_and_what_is_waited_for(
    given: Eviction, state: str, text: str
) -> None:
    found = words(given, HERE)
    assert found.startswith(f"eviction/here: {state} for 10m")
    assert "Moves all instances away from here, requested 10m ago: test" in found
    assert text in found


def test_explanation_of_an_eviction_without_a_host_names_the_remedy() -> None:
    found = words(eviction())
    assert "There is no Hypervisor here" in found
    assert "kubectl delete eviction here" in found


def test_a_deleted_eviction_stops_its_moves_first() -> None:
    running = of("True", "Running", "Running")
    meta = replace(running.metadata, deletionTimestamp=BEGAN)
    found = words(replace(running, metadata=meta), HERE)
    assert found.startswith("eviction/here: Cancelling")
    assert "Moves that were begun are stopped first" in found


def test_explanation_advises_no_action_that_is_under_way_already() -> None:
    pending = EvictionCheck(name="HostDisabled", result="Pending", message="it is about to be")
    found = words(of("True", "Running", "waits", checks=(pending,)), HERE)
    assert "it is about to be" in found
    assert "cobalt maintain" not in found


@pytest.mark.parametrize(("maintenance", "advised"), [("manual", True), ("", False)])
def test_the_way_back_is_shown_in_maintenance(maintenance: str, *, advised: bool) -> None:
    host = Hypervisor(
        metadata=ObjectMeta(name="here"),
        spec=HypervisorSpec(maintenance=maintenance, maintenanceReason="new fans"),
    )
    found = words(of("False", "Succeeded", "done"), host)
    assert ("cobalt resume here" in found) is advised
    assert ("The end of the maintenance `manual`: new fans" in found) is advised


def test_a_long_list_is_cut_with_its_length() -> None:
    many = tuple(entry(f"i{number}", "Pending") for number in range(25))
    found = words(of("True", "Running", "Running", instances=many), HERE)
    assert "Pending (25):" in found
    assert "and 5 more" in found


@pytest.mark.parametrize(
    ("spec", "aim"),
    [
        ({}, "Moves all instances away from here"),
        ({"mode": "auto", "trigger": "Maintenance"}, "Moves all instances away from here"),
        ({"mode": "live"}, "Moves all instances that run away from here"),
        ({"mode": "cold"}, "Moves all instances away from here, stopped"),
        ({"mode": "restart", "instances": ("a",)}, "Restarts only 1 instance on here"),
        (
            {"trigger": "InstanceCrash", "instances": ("a",)},
            "Restarts only 1 instance on here, or moves what does not run then",
        ),
        ({"mode": "evacuate"}, "Starts all instances of here elsewhere, once it is proven dead"),
    ],
)
def test_explanation_names_the_purpose_of_the_eviction(spec: dict[str, object], aim: str) -> None:
    assert f"{aim}, requested 10m ago" in words(eviction(**spec), HERE)


def test_explanation_counts_instances_that_run_again() -> None:
    status = EvictionStatus(progress=EvictionProgress(total=2, done=1))
    assert "1 of 2 run again" in words(eviction(status, trigger="Watchdog"), HERE)


def test_explanation_names_what_a_dead_host_waits_for() -> None:
    found = words(of("True", "Running", "Running", checks=(FENCED,)), HERE)
    assert "check HostFenced Pending (operator): here is not proven dead" in found
    assert "kubectl annotate hypervisor here kvm.cloud.sap/fenced=BOOT_ID" in found


@pytest.mark.parametrize("phase", ["Evacuating", "Restarting"])
def test_explanation_lists_instances_under_way(phase: str) -> None:
    busy = entry("a", phase, startedAt=BEGAN)
    found = words(of("True", "Running", "Running", instances=(busy,)), HERE)
    assert f"{phase} (1):\n  - a, for 10m" in found


FAILED = of("False", "Failed", "failed", instances=(entry("b", "Failed"), entry("c", "Succeeded")))
HA = Hypervisor(metadata=ObjectMeta(name="here"), spec=HypervisorSpec(maintenance="ha"))


@pytest.mark.parametrize(
    ("name", "spec", "host", "advice"),
    [
        ("here", {}, HERE, "try again:\n       cobalt evict here\n"),
        (
            "here-x1",
            {"instances": ("b", "c")},
            HERE,
            "try again:\n       cobalt evict here --instances b\n",
        ),
        ("here", {}, HA, "the operator creates a new Eviction"),
        (
            "ha-here-1",
            {"trigger": "NodeFailure", "mode": "evacuate"},
            HERE,
            "the operator creates a new Eviction",
        ),
        (
            "ha-b",
            {"trigger": "InstanceCrash", "instances": ("b",)},
            HERE,
            "the node agent requests another recovery",
        ),
    ],
)
def test_explanation_names_the_next_attempt_of_a_failed_instance(
    name: str, spec: dict[str, object], host: Hypervisor, advice: str
) -> None:
    made = replace(
        FAILED,
        metadata=replace(FAILED.metadata, name=name),
        spec=replace(FAILED.spec, **spec),
    )
    found = words(made, host)
    assert advice in found
    assert ("cobalt evict" in found) is ("cobalt evict" in advice)
    assert ("does not count as evicted" in found) is ("instances" not in spec)


def test_advice_to_assert_a_death_has_the_last_boot() -> None:
    known = replace(HERE, status=HypervisorStatus(bootID="b-1"))
    found = words(of("True", "Running", "Running", checks=(FENCED,)), known)
    assert "kubectl annotate hypervisor here kvm.cloud.sap/fenced=b-1" in found


def test_guests_that_are_waited_for_are_all_named_with_the_way_out() -> None:
    guests = tuple(f"default/guest-{number:02}" for number in range(30))
    given = of("True", "Running", "Running: 0 of 0", virtualMachineInstances=guests)
    text = words(given, HERE)
    assert "VirtualMachineInstances do not move yet" in text
    assert "kubectl delete vmi -n default guest-00" in text
    assert "VirtualMachineInstances (30)" in text
    assert "default/guest-19\n" in text
    assert "and 10 more" in text


def test_name_of_a_guest_is_one_word_for_the_shell() -> None:
    given = of("True", "Running", "Running", virtualMachineInstances=("a/b; reboot",))
    assert "kubectl delete vmi -n a 'b; reboot'" in words(given, HERE)
