"""What is checked before anything moves."""

from __future__ import annotations

import dataclasses
import re

import pytest
from msgspec.structs import replace
from tests.records import recorded
from tests.unit.operator.eviction import made
from tests.unit.operator.eviction.made import BEGAN, assessed, capacity, entry, server

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionCheck, EvictionSpec, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec, is_claimed
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Capacity, Host, Server, ServerGroup, Size
from hypercobalt.operator.eviction.assessing.course import Course
from hypercobalt.operator.eviction.model.decision import Preflight
from hypercobalt.operator.eviction.model.facts import need
from hypercobalt.operator.eviction.model.policy import Doubt, Policy
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Departed,
    Moving,
    Observed,
    Stranded,
)
from hypercobalt.operator.eviction.planning.preflight import (
    check,
    check_host,
    is_instance_check_due,
    of_host,
    of_instances,
    refusal,
    unproven,
)
from hypercobalt.operator.eviction.recording.notes import notes
from hypercobalt.operator.eviction.recording.status import Conditions, set_preflight

UP = Host("here", "h", "s", enabled=False)
DOWN = Host("here", "h", "s", enabled=False, up=False)
FORCED = Host("here", "h", "s", enabled=False, forced_down=True)
WHOLE = EvictionSpec(hypervisor="here", reason="test")
LIVE = EvictionSpec(hypervisor="here", reason="test", mode="live")


def hypervisor(*, disabled: bool = True, maintenance: str = "manual") -> Hypervisor:
    conditions = set_condition(
        (), "HypervisorDisabled", str(disabled), "Succeeded", "text", now=BEGAN
    )
    return Hypervisor(
        metadata=ObjectMeta(name="here"),
        spec=HypervisorSpec(maintenance=maintenance),
        status=HypervisorStatus(conditions=conditions),
    )


def hindered(type_: str, status: str, reason: str) -> Hypervisor:
    """A host that is about to be disabled, with a reason why it is not."""
    enabled = hypervisor(disabled=False)
    conditions = set_condition(
        enabled.status.conditions, type_, status, reason, "Nova refuses", now=BEGAN
    )
    return replace(enabled, status=HypervisorStatus(conditions=conditions))


def host(*, enabled: bool = False, **fields: bool) -> Host:
    return Host("here", "h", "s", enabled=enabled, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("of", "on", "spec", "expected"),
    [
        pytest.param(hypervisor(), host(), WHOLE, "", id="disabled on both sides"),
        pytest.param(
            hypervisor(disabled=False, maintenance=""),
            host(),
            WHOLE,
            "set spec.maintenance",
            id="not marked",
        ),
        pytest.param(
            hypervisor(disabled=False), host(), WHOLE, "to disable it", id="just requested"
        ),
        pytest.param(
            hindered("HypervisorDisabled", "False", "Failed"),
            host(enabled=True),
            WHOLE,
            "to disable it (Nova refuses)",
            id="requested, and refused",
        ),
        pytest.param(
            hindered("Registered", "Unknown", "Unreachable"),
            host(enabled=True),
            WHOLE,
            "to disable it (Nova refuses)",
            id="requested, and OpenStack is away",
        ),
        pytest.param(
            hypervisor(),
            host(enabled=True),
            WHOLE,
            "instances there",
            id="marked, but enabled outside hypercobalt",
        ),
        pytest.param(
            hypervisor(disabled=False),
            host(enabled=True),
            EvictionSpec(hypervisor="here", reason="x", trigger="HostShutdown"),
            "",
            id="a host shutdown skips the check",
        ),
        pytest.param(
            hypervisor(disabled=False),
            host(enabled=True),
            EvictionSpec(hypervisor="here", reason="x", instances=("a",)),
            "",
            id="only some leave",
        ),
        pytest.param(hypervisor(), host(up=False), LIVE, "does not report", id="down"),
        pytest.param(hypervisor(), host(forced_down=True), LIVE, "forced down", id="forced down"),
        pytest.param(
            hypervisor(disabled=False, maintenance=""),
            host(enabled=True),
            EvictionSpec(hypervisor="here", reason="x", mode="restart"),
            "",
            id="instances stay",
        ),
    ],
)
def test_preflight_names_what_is_wrong_with_the_host(
    of: Hypervisor, on: Host, spec: EvictionSpec, expected: str
) -> None:
    obstacles = Preflight(of_host(of, on, spec)).obstacles
    assert bool(obstacles) == bool(expected)
    assert expected in "; ".join(obstacles)


def test_a_host_about_to_be_disabled_is_pending_and_no_warning() -> None:
    soon = of_host(hypervisor(disabled=False), host(), WHOLE)
    assert [check.result for check in soon] == ["Passed", "Pending"]
    assert warnings(soon) == []

    left_enabled = of_host(hypervisor(disabled=False, maintenance=""), host(), WHOLE)
    assert warnings(left_enabled) == ["PreflightFailed"]


def warnings(checks: tuple[EvictionCheck, ...]) -> list[str]:
    """Reasons of the Events that these checks are worth, in the first pass."""
    conditions = Conditions((), 1, BEGAN)
    set_preflight(conditions, Preflight(checks))
    assert conditions.value[0].status == "False"
    recorded = notes(
        EvictionStatus(), EvictionStatus(checks=checks, conditions=conditions.value), "here"
    )
    return [note.reason for note in recorded if note.type == "Warning"]


@pytest.mark.parametrize(
    ("of", "on", "spec", "result", "pattern"),
    [
        pytest.param(made.hypervisor(), UP, {}, "", "", id="a host that is well"),
        pytest.param(
            made.hypervisor(),
            DOWN,
            {},
            "Pending",
            "does not report; .* when it is back, or are started elsewhere .* not fenced",
        ),
        pytest.param(
            made.hypervisor(),
            FORCED,
            {},
            "Pending",
            "is forced down; .* when it is back, .* not fenced",
        ),
        pytest.param(made.hypervisor(maintenance="ha"), UP, {}, "Pending", "not fenced"),
        pytest.param(
            made.hypervisor(),
            UP,
            {"trigger": "NodeFailure"},
            "Pending",
            "^instances are started elsewhere",
        ),
        pytest.param(made.hypervisor(), UP, {"mode": "evacuate"}, "Pending", "not fenced"),
        pytest.param(
            made.hypervisor("Attempting", evidence=("bmc: 409",)),
            DOWN,
            {},
            "Pending",
            "fencing is Attempting: bmc: 409",
        ),
        pytest.param(made.hypervisor("Failed"), DOWN, {}, "Pending", "fencing is Failed$"),
        pytest.param(made.hypervisor("Released"), DOWN, {}, "Pending", "not fenced"),
        pytest.param(
            made.hypervisor("Fenced"),
            UP,
            {"mode": "evacuate"},
            "Pending",
            "until the compute service has it as down",
        ),
        pytest.param(
            made.hypervisor("Fenced", boot="2"), DOWN, {}, "Pending", "boot 1 was fenced, but"
        ),
        pytest.param(made.hypervisor("Fenced"), DOWN, {}, "Passed", "power is off"),
        pytest.param(made.hypervisor("Fenced"), FORCED, {"mode": "evacuate"}, "Passed", ""),
        pytest.param(
            made.hypervisor(maintenance="ha"),
            UP,
            {"trigger": "NodeFailure", "mode": "live"},
            "",
            "",
            id="a host that has failed, and whose instances can be moved",
        ),
        pytest.param(made.hypervisor("Fenced"), DOWN, {"mode": "restart"}, "", "", id="restart"),
    ],
)
def test_a_host_that_has_to_be_dead_is_proven_dead_first(
    of: Hypervisor, on: Host, spec: dict[str, str], result: str, pattern: str
) -> None:
    checks = of_host(of, on, EvictionSpec(hypervisor="here", reason="test", **spec))  # type: ignore[arg-type]
    assert [check.name for check in checks] == (
        ["HostFenced"] if result else ["HostUp", "HostDisabled"]
    )
    if result:
        assert checks[0].result == result
        assert re.search(pattern, checks[0].message or ""), checks[0].message
    if result == "Pending":
        assert warnings(checks) == []
        (empty,) = of_host(of, on, EvictionSpec(hypervisor="here", reason="", **spec), empty=True)  # type: ignore[arg-type]
        assert empty.result == "Warning"


PASSED = EvictionCheck(name="Instances", result="Passed")
FAILED = EvictionCheck(name="TargetCapacity", result="Failed", message="no host has capacity")
OF_HOST = EvictionCheck(name="HostUp", result="Failed", message="down")


@pytest.mark.parametrize(
    ("checks", "due"),
    [
        pytest.param((), True, id="never made"),
        pytest.param((OF_HOST,), True, id="only the host was checked"),
        pytest.param((OF_HOST, PASSED), False, id="passed once"),
        pytest.param((PASSED, FAILED), True, id="one has failed"),
        pytest.param((PASSED, replace(FAILED, result="Warning")), False, id="in doubt is passed"),
    ],
)
def test_instances_are_checked_until_that_has_passed_once(
    checks: tuple[EvictionCheck, ...], due: bool
) -> None:
    status = EvictionStatus(checks=checks)
    assert is_instance_check_due(status) is due
    facts = made.facts(made.eviction(status), hypervisor=hypervisor(), host=host())
    found = check(made.situation(facts, Policy(doubt=Doubt.STOP)), [assessed(server())])
    kept = tuple(one for one in checks if one != OF_HOST)
    assert found.checks[:2] == of_host(hypervisor(), host(), WHOLE)
    assert (found.checks[2:] == kept) is not due
    assert len(found.checks) == (2 + len(kept) if not due else 6)


@pytest.mark.parametrize(
    ("instances", "result"),
    [
        pytest.param([], "Warning", id="nothing is there"),
        pytest.param([assessed(server())], "Failed", id="one is there"),
        pytest.param([assessed(server(), Stranded("x"))], "Failed", id="one that stays"),
        pytest.param([Assessment(Observed(entry(), None), Departed("x"))], "Warning", id="left"),
        pytest.param([Assessment(Observed(entry(), None), Moving())], "Failed", id="on its way"),
        pytest.param(
            [Assessment(Observed(entry(), None), Departed("x")), assessed(server("b"))],
            "Failed",
            id="one of two has left",
        ),
    ],
)
def test_host_that_is_down_and_empty_stops_nothing(
    instances: list[Assessment], result: str
) -> None:
    facts = made.facts(made.eviction(mode="live"), hypervisor=hypervisor(), host=DOWN)
    found = check_host(made.situation(facts), instances).checks
    assert (found[0].name, found[0].result) == ("HostUp", result)


def test_instances_that_are_gone_are_not_checked() -> None:
    gone = Assessment(Observed(entry("b"), None), Departed("left"))
    facts = made.facts(hypervisor=hypervisor(), host=host())
    found = check(made.situation(facts), [assessed(server()), gone])
    assert [one.message for one in found.checks if one.name == "Instances"] == [
        "1 instances can be moved"
    ]


@pytest.mark.parametrize(
    ("reason", "foreign"), [("Claimed", True), ("Succeeded", False), ("", False)]
)
def test_host_of_a_name_that_another_hypervisor_has_is_that_one_s(
    reason: str, foreign: bool
) -> None:
    given = hindered("Registered", "False", reason) if reason else hypervisor()
    assert is_claimed(given) is foreign


def test_check_without_a_message_is_named() -> None:
    found = Preflight((EvictionCheck(name="HostUp", result="Failed"), OF_HOST))
    assert found.obstacles == ("HostUp", "down")


def test_instances_of_a_dead_host_are_checked_for_evacuation() -> None:
    """A restart needs no other host, an evacuation no guest that can migrate."""
    pinned = server(hindrance="a vTPM")
    courses = [(Course.EVACUATE, "Passed"), (Course.LEAVE, "Warning")]
    for course, result in courses:
        found = of_instances((pinned,), {need(pinned): (capacity("x"),)}, Doubt.WARN, "", course)
        assert found[0].result == result
    (only,) = of_instances((server(),), {}, Doubt.WARN, "", Course.RESTART)
    assert only.message == "1 instances can be restarted"


@pytest.mark.parametrize(
    ("of", "hitch"),
    [
        (hindered("Registered", "Unknown", "Unreachable"), " (Nova refuses)"),
        (hindered("Registered", "True", "Succeeded"), ""),
        (hindered("HypervisorDisabled", "False", "Failed"), " (Nova refuses)"),
        (hindered("HypervisorDisabled", "False", "NotDisabled"), ""),
    ],
)
def test_wait_for_a_host_names_its_reason(of: Hypervisor, hitch: str) -> None:
    checks = of_host(of, host(enabled=True), WHOLE)
    assert checks[1].message == (
        "hypervisor not disabled: spec.maintenance is manual; waiting for the operator to disable "
        f"it{hitch}"
    )


def test_live_eviction_of_a_host_that_is_down_mentions_no_proof() -> None:
    on = [(UP, {"mode": "live"}), (DOWN, {"mode": "live"}), (UP, {})]
    for there, spec in on:
        without_mode = EvictionSpec(hypervisor="here", reason="test", **spec)  # type: ignore[arg-type]
        assert unproven(without_mode, made.hypervisor(), there) == ""
    forced = EvictionSpec(hypervisor="here", reason="test", mode="evacuate")
    assert unproven(forced, made.hypervisor(), DOWN).startswith("instances are started elsewhere")


def test_eviction_names_a_host_that_lives_after_its_proof() -> None:
    dead = made.hypervisor("Fenced")
    assert dead.status.fencing is not None
    record = replace(dead.status.fencing, livesSince=made.BEGAN)
    lives = recorded(replace(dead, status=replace(dead.status, fencing=record)))
    forced = EvictionSpec(hypervisor="here", reason="test", mode="evacuate")
    assert unproven(forced, dead, DOWN) == ""
    assert "the host has shown life since" in unproven(forced, lives, DOWN)


def test_large_instance_takes_its_place_before_the_small_ones() -> None:
    sizes = (1024, 3072, 1024)
    servers = [server(str(n), size=Size(1, mib)) for n, mib in enumerate(sizes)]
    (doubt,) = checked(*servers, rooms=(capacity("x"),)).doubts
    assert doubt == "no host has capacity for 1 instances of 1 vCPUs and 1024 MiB"


def test_server_without_a_name_is_called_by_its_id() -> None:
    nameless = dataclasses.replace(server(hindrance="a vTPM"), name="")
    (doubt,) = checked(nameless, rooms=(capacity("x"),)).doubts
    assert doubt.startswith("a cannot be moved")


@pytest.mark.parametrize(
    ("name", "trigger", "refused"),
    [
        ("here", "HostShutdown", False),
        ("there", "HostShutdown", True),
        ("here-1", "HostShutdown", True),
        ("there", "Maintenance", False),
        ("there", None, False),
    ],
)
def test_a_host_shutdown_empties_only_the_host_that_its_eviction_is_named_after(
    name: str, trigger: str | None, refused: bool
) -> None:
    named = Eviction(
        metadata=ObjectMeta(name=name),
        spec=EvictionSpec(hypervisor="here", reason="test", trigger=trigger),
    )
    assert bool(refusal(hypervisor(), named)) == refused


@pytest.mark.parametrize("doubt", list(Doubt))
def test_server_groups_that_nova_does_not_list_are_a_warning_and_stop_nothing(doubt: Doubt) -> None:
    found = Preflight(of_instances((), {}, doubt, "list the server groups: 403 Forbidden"))
    assert found.obstacles == ()
    assert [check.name for check in found.checks if check.result == "Warning"] == [
        "ServerGroupsListed"
    ]
    assert "403 Forbidden" in found.doubts[0]


def checked(*servers: Server, rooms: tuple[Capacity, ...], doubt: Doubt = Doubt.WARN) -> Preflight:
    return Preflight(of_instances(servers, {need(one): rooms for one in servers}, doubt))


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        pytest.param([server("a"), server("b")], "", id="all can go"),
        pytest.param(
            [server(str(n)) for n in range(5)],
            "no host has capacity for 1 instances",
            id="one too many",
        ),
        pytest.param([server(size=Size(1, 9999))], "9999 MiB", id="one that is too large"),
        pytest.param([server(hindrance="a vTPM")], "vm-a (a) cannot be moved: a vTPM", id="pinned"),
        pytest.param([server(status="SUSPENDED")], "resume or stop it", id="in a state that stays"),
        pytest.param([server(status="BUILD")], "", id="in a state that ends"),
        pytest.param(
            [server(group=ServerGroup("affinity", ("b",)))], "strict affinity", id="tied together"
        ),
        pytest.param([server(group=ServerGroup("affinity", ()))], "", id="in a group of its own"),
        pytest.param(
            [
                server("a", group=ServerGroup("anti-affinity", ("b",))),
                server("b", group=ServerGroup("anti-affinity", ("a",))),
            ],
            "no host has capacity for 1 instances",
            id="to be apart, with one host to go to",
        ),
    ],
)
def test_preflight_warns_of_instances_that_cannot_move(
    servers: list[Server], expected: str
) -> None:
    found = checked(*servers, rooms=(capacity("x"),))
    assert not found.obstacles
    assert bool(found.doubts) == bool(expected)
    assert expected in "; ".join(found.doubts)
    assert bool(checked(*servers, rooms=(capacity("x"),), doubt=Doubt.STOP).obstacles) == bool(
        expected
    )


def test_ten_of_many_instances_are_named_and_the_others_counted() -> None:
    (doubt,) = checked(*(server(str(n), "SUSPENDED") for n in range(14)), rooms=()).doubts
    assert doubt.count("is suspended") == 10
    assert doubt.endswith("and 4 more")
    (ten,) = checked(*(server(str(n), "SUSPENDED") for n in range(10)), rooms=()).doubts
    assert "more" not in ten
