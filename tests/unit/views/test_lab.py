from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_host import OperatingSystemStatus
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.lab.host import HostPower
from hypercobalt.lab.supervision.rules import Restarts
from hypercobalt.views.lab import Row, is_watched, restarted, rows, stopped

RUNNING = dict.fromkeys(
    (
        "apiserver",
        "operator",
        "tokens",
        "ovn/sb",
        "ovn/nb",
        "ovn/northd",
        "rack/switch",
        "host/kvm-1",
    ),
    False,
)
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def condition(type_: str, status: str, reason: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason, message="", lastTransitionTime=NOW)


def test_row_shows_the_state_of_agent_and_machine() -> None:
    hypervisor = Hypervisor(
        metadata=ObjectMeta(name="kvm-1", creationTimestamp=NOW - timedelta(minutes=5)),
        status=HypervisorStatus(
            numInstances=2,
            operatingSystem=OperatingSystemStatus(
                prettyVersion="Debian 12", hardwareModel="Rack 1", kernelRelease="6.1"
            ),
            conditions=(
                condition("Ready", "False", "Evicted"),
                condition("libvirtd.service", "True", "Running"),
                condition("openvswitch-switch.service", "False", "Failed"),
                condition("NetworkHealthy", "False", "SwitchNotResponding"),
            ),
        ),
    )
    power = {"kvm-1": HostPower.RUNNING, "kvm-2": HostPower.OFF}

    shown = rows(power, [hypervisor, Hypervisor(metadata=ObjectMeta(name="elsewhere"))], NOW)

    assert shown == (
        Row(
            *("kvm-1", "running", "Evicted", "Debian 12", "2", "Running", "Failed"),
            *("SwitchNotResponding", "Rack 1", "6.1", "5m"),
        ),
        Row("kvm-2", "off", *["-"] * 9),
    )


def test_field_that_is_not_written_yet_is_a_dash() -> None:
    (row,) = rows({"a": HostPower.FROZEN}, [Hypervisor(metadata=ObjectMeta(name="a"))], NOW)
    assert row == Row("a", "frozen", *["-"] * 9)


FINE = (
    condition("Ready", "True", "Ready"),
    condition("libvirtd.service", "True", "Running"),
    condition("openvswitch-switch.service", "True", "Running"),
)
SILENT = (
    condition("Ready", "False", "AgentSilent"),
    condition("AgentReporting", "False", "AgentSilent"),
    *FINE[1:],
)


@pytest.mark.parametrize(
    ("power", "is_cut", "conditions", "shown"),
    [
        pytest.param("running", False, FINE, ("running", "Ready", "Running"), id="reporting"),
        pytest.param("off", False, FINE, ("off", "Stale", "-"), id="off-before-it-is-noticed"),
        pytest.param("frozen", False, FINE, ("frozen", "Stale", "-"), id="frozen"),
        pytest.param("running", True, FINE, ("cut", "Stale", "-"), id="cut-off"),
        pytest.param("off", False, SILENT, ("off", "AgentSilent", "-"), id="off-and-noticed"),
        pytest.param("running", False, SILENT, ("running", "AgentSilent", "-"), id="dead-agent"),
    ],
)
def test_a_host_that_does_not_report_is_not_shown_as_fine(
    power: str, *, is_cut: bool, conditions: tuple[Condition, ...], shown: tuple[str, str, str]
) -> None:
    found = Hypervisor(
        metadata=ObjectMeta(name="a"), status=HypervisorStatus(conditions=conditions)
    )
    (row,) = rows({"a": HostPower(power)}, [found], NOW, cut={"a"} if is_cut else ())
    assert (row.power, row.state, row.libvirt) == shown
    assert row.ovs == row.libvirt


@pytest.mark.parametrize(
    ("missing", "text", "remedy"),
    [
        ("apiserver", "The API server does not run", "up"),
        ("operator", "The operator does not run", "up"),
        ("tokens", "The renewal of tokens does not run", "up"),
        ("rack/switch", "The top of rack does not run", "up"),
        ("ovn/sb", "OVN's southbound database does not run", "ovn start sb"),
        ("ovn/nb", "OVN's northbound database does not run", "ovn start nb"),
        ("ovn/northd", "OVN's northd does not run", "ovn start northd"),
    ],
)
def test_process_that_does_not_run_is_named_with_what_starts_it(
    missing: str, text: str, remedy: str
) -> None:
    assert stopped(RUNNING) == ()
    (found,) = stopped({role: hangs for role, hangs in RUNNING.items() if role != missing})
    assert found.startswith(text)
    assert f"`cobalt lab {remedy}`" in found


@pytest.mark.parametrize("missing", ["operator", "ovn/nb"])
def test_process_that_the_supervisor_starts_again_needs_no_command(missing: str) -> None:
    left = {role: hangs for role, hangs in RUNNING.items() if role != missing}
    (found,) = stopped(left, [missing])
    assert found.endswith("; the supervisor starts it")


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (Restarts(), ()),
        (
            Restarts(1, 1, NOW, "killed by SIGKILL"),
            (
                f"Process operator was restarted 1 time; it ended at {NOW:%H:%M:%S} UTC: "
                "killed by SIGKILL",
            ),
        ),
        (
            Restarts(0, 0, NOW, "exit code 1", due=NOW),
            (
                f"Process operator does not run, restarted 0 times, next start {NOW:%H:%M:%S} UTC; "
                f"it ended at {NOW:%H:%M:%S} UTC: exit code 1",
            ),
        ),
    ],
    ids=["never died", "runs again", "to be started"],
)
def test_restarts_are_shown_with_their_cause(one: Restarts, text: tuple[str, ...]) -> None:
    assert restarted({"operator": one}) == text


def test_a_database_that_hangs_is_named_although_its_process_is_there() -> None:
    (found,) = stopped({**RUNNING, "ovn/sb": True})
    assert found.startswith("OVN's southbound database hangs: no port is bound")
    assert "`cobalt lab ovn start sb`" in found


@pytest.mark.parametrize(
    ("status", "is_known"), [("True", True), ("False", True), ("Unknown", False), ("", False)]
)
def test_a_host_is_watched_once_its_ovs_agent_has_reported(status: str, *, is_known: bool) -> None:
    network = (condition("NetworkHealthy", status, "Any"),) if status else ()
    found = Hypervisor(status=HypervisorStatus(conditions=network))
    assert is_watched(found) is is_known
