"""What is checked before anything moves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
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

WHOLE = EvictionSpec(hypervisor="here", reason="test")


def hypervisor(*, disabled: bool = True, maintenance: str = "manual") -> Hypervisor:
    conditions = set_condition(
        (), "HypervisorDisabled", str(disabled), "Succeeded", "said", now=BEGAN
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
        asked.status.conditions, type_, status, reason, "Nova says no", now=BEGAN
    )
    return replace(asked, status=HypervisorStatus(conditions=conditions))


def host(*, enabled: bool = False, **fields: bool) -> Host:
    return Host("here", "h", "s", enabled=enabled, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("of", "on", "spec", "said"),
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
            "about to be (Nova says no)",
            id="asked for, and refused",
        ),
        pytest.param(
            hindered("Registered", "Unknown", "Unreachable"),
            host(enabled=True),
            WHOLE,
            "about to be (Nova says no)",
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
        pytest.param(hypervisor(), host(up=False), WHOLE, "does not report", id="down"),
        pytest.param(hypervisor(), host(forced_down=True), WHOLE, "forced down", id="forced down"),
    ],
)
def test_the_host(of: Hypervisor, on: Host, spec: EvictionSpec, said: str) -> None:
    obstacles = Preflight(of_host(of, on, spec)).obstacles
    assert bool(obstacles) == bool(said)
    assert said in "; ".join(obstacles)


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
    told = notes(
        EvictionStatus(), EvictionStatus(checks=checks, conditions=conditions.value), "here"
    )
    return [note.reason for note in told if note.type == "Warning"]


@pytest.mark.parametrize(
    ("maintenance", "trigger", "refused"),
    [
        ("manual", None, False),
        ("ha", None, True),
        ("", "NodeFailure", True),
        ("", "IOError", False),
    ],
)
def test_hosts_that_are_dead_are_refused(
    maintenance: str, trigger: str | None, refused: bool
) -> None:
    made = Eviction(
        metadata=ObjectMeta(name="here"),
        spec=EvictionSpec(hypervisor="here", reason="test", trigger=trigger),
    )
    assert bool(refusal(hypervisor(maintenance=maintenance), made)) == refused


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
    made = Eviction(
        metadata=ObjectMeta(name=name),
        spec=EvictionSpec(hypervisor="here", reason="test", trigger=trigger),
    )
    assert bool(refusal(hypervisor(), made)) == refused


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
    ("servers", "said"),
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
def test_the_instances(servers: list[Server], said: str) -> None:
    found = checked(*servers, rooms=(capacity("x"),))
    assert not found.obstacles
    assert bool(found.doubts) == bool(said)
    assert said in "; ".join(found.doubts)
    assert bool(checked(*servers, rooms=(capacity("x"),), doubt=Doubt.STOP).obstacles) == bool(said)


def test_of_many_instances_some_are_named_and_the_others_counted() -> None:
    (doubt,) = checked(*(server(str(n), "SUSPENDED") for n in range(14)), rooms=()).doubts
    assert doubt.count("is suspended") == 10
    assert doubt.endswith("and 4 more")
