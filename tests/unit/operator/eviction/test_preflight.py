"""What is checked before anything moves."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tests.unit.operator.eviction import made
from tests.unit.operator.eviction.made import BEGAN, capacity, server

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionCheck, EvictionSpec, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Capacity, Host, Server, ServerGroup, Size
from hypercobalt.operator.eviction.notes import notes
from hypercobalt.operator.eviction.policy import Doubt
from hypercobalt.operator.eviction.preflight import Preflight, of_host, of_instances, refusal
from hypercobalt.operator.eviction.status import Conditions, set_preflight
from hypercobalt.operator.eviction.targets import need

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
    """One that is about to be disabled, and something is in the way."""
    asked = hypervisor(disabled=False)
    conditions = set_condition(
        asked.status.conditions, type_, status, reason, "Nova refuses", now=BEGAN
    )
    return replace(asked, status=HypervisorStatus(conditions=conditions))


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
            hypervisor(disabled=False), host(), WHOLE, "about to be", id="asked for just now"
        ),
        pytest.param(
            hindered("HypervisorDisabled", "False", "Failed"),
            host(enabled=True),
            WHOLE,
            "about to be (Nova refuses)",
            id="asked for, and refused",
        ),
        pytest.param(
            hindered("Registered", "Unknown", "Unreachable"),
            host(enabled=True),
            WHOLE,
            "about to be (Nova refuses)",
            id="asked for, and OpenStack is away",
        ),
        pytest.param(
            hypervisor(),
            host(enabled=True),
            WHOLE,
            "instances there",
            id="marked, but enabled by somebody",
        ),
        pytest.param(
            hypervisor(disabled=False),
            host(enabled=True),
            EvictionSpec(hypervisor="here", reason="x", trigger="HostShutdown"),
            "",
            id="a shutdown waits for nobody",
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
def test_the_host(of: Hypervisor, on: Host, spec: EvictionSpec, expected: str) -> None:
    obstacles = Preflight(of_host(of, on, spec)).obstacles
    assert bool(obstacles) == bool(expected)
    assert expected in "; ".join(obstacles)


def test_a_host_about_to_be_disabled_is_pending_and_no_warning() -> None:
    soon = of_host(hypervisor(disabled=False), host(), WHOLE)
    assert [check.result for check in soon] == ["Passed", "Pending"]
    assert warnings(soon) == []

    not_asked = of_host(hypervisor(disabled=False, maintenance=""), host(), WHOLE)
    assert warnings(not_asked) == ["PreflightFailed"]


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
    ("of", "on", "spec", "result", "said"),
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
            made.hypervisor("Fenced"), UP, {"mode": "evacuate"}, "Pending", "until it is declared"
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
    of: Hypervisor, on: Host, spec: dict[str, str], result: str, said: str
) -> None:
    checks = of_host(of, on, EvictionSpec(hypervisor="here", reason="test", **spec))  # type: ignore[arg-type]
    assert [check.name for check in checks] == (
        ["HostFenced"] if result else ["HostUp", "HostDisabled"]
    )
    if result:
        assert checks[0].result == result
        assert re.search(said, checks[0].message or ""), checks[0].message
    if result == "Pending":
        assert warnings(checks) == []
        (empty,) = of_host(of, on, EvictionSpec(hypervisor="here", reason="", **spec), empty=True)  # type: ignore[arg-type]
        assert empty.result == "Warning"


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
        pytest.param([server(group=ServerGroup("affinity", ()))], "", id="tied to nobody else"),
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
def test_the_instances(servers: list[Server], expected: str) -> None:
    found = checked(*servers, rooms=(capacity("x"),))
    assert not found.obstacles
    assert bool(found.doubts) == bool(expected)
    assert expected in "; ".join(found.doubts)
    assert bool(checked(*servers, rooms=(capacity("x"),), doubt=Doubt.STOP).obstacles) == bool(
        expected
    )


def test_of_many_instances_some_are_named_and_the_others_counted() -> None:
    (doubt,) = checked(*(server(str(n), "SUSPENDED") for n in range(14)), rooms=()).doubts
    assert doubt.count("is suspended") == 10
    assert doubt.endswith("and 4 more")
