"""Instances that have died while their host is emptied: found by the node agent, moved running."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.eviction.made import (
    NOW,
    POLICY,
    entry,
    eviction,
    facts,
    hypervisor,
    server,
    situation,
)

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType as _Type
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.incident import Incident
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Server, ServerAction
from hypercobalt.operator.eviction.assess import assess
from hypercobalt.operator.eviction.assessing.deaths import (
    is_revived,
    may_be_unnamed,
    ran_until_it_died,
    reported,
    with_deaths,
)
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Crashed,
    Ready,
    Stranded,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import FRESH, Track
from hypercobalt.operator.eviction.observing.lookups import requests_to_be_read
from hypercobalt.operator.eviction.recording.status import entry_of

OFF = server(status="SHUTOFF", running=False)


def reporting(
    type_: str,
    instance: str | None = "a",
    seen: datetime | None = None,
    reaction: str | None = None,
) -> Hypervisor:
    incident = Incident("x", type_, "Critical", instance=instance, lastSeen=seen, reaction=reaction)
    return Hypervisor(
        metadata=ObjectMeta(name="here"), status=HypervisorStatus(incidents=(incident,))
    )


@pytest.mark.parametrize(
    ("of", "host", "died"),
    [
        pytest.param(OFF, reporting("Crash"), True, id="crashed"),
        pytest.param(OFF, reporting("HostOutOfMemory"), True, id="killed by the kernel"),
        pytest.param(OFF, reporting("EndedByBoot"), True, id="ended by a reboot"),
        pytest.param(OFF, reporting("ManyCrashes", None), True, id="one of many"),
        pytest.param(OFF, reporting("Crash", "b"), None, id="another has crashed"),
        pytest.param(OFF, reporting("OutOfBand"), None, id="a person has ended it"),
        pytest.param(OFF, hypervisor(), None, id="no incident"),
        pytest.param(OFF, None, None, id="no Hypervisor"),
        pytest.param(server(), reporting("Crash"), None, id="runs"),
        pytest.param(
            replace(OFF, died=False),
            reporting("ManyCrashes", None),
            False,
            id="libvirt reports the reason",
        ),
    ],
)
def test_server_that_is_off_has_died_where_its_node_agent_reports_so(
    of: Server, host: Hypervisor | None, died: bool | None
) -> None:
    (found,) = with_deaths([of], host)
    assert found.died is died


STOP = ServerAction("stop", NOW.now, "owner")
START = ServerAction("start", NOW.now, "owner")
SYNC = ServerAction("stop", NOW.now)
LOCK = ServerAction("lock", NOW.now, "owner")


@pytest.mark.parametrize(
    ("requests", "ran", "state"),
    [
        pytest.param((SYNC,), True, Crashed, id="Nova has found it off"),
        pytest.param((), True, Crashed, id="nothing was requested"),
        pytest.param((START, STOP), True, Crashed, id="started by its owner, and Nova is late"),
        pytest.param((SYNC, STOP), True, Crashed, id="stopped, started and died"),
        pytest.param((STOP,), True, Ready, id="stopped by its owner after it had died"),
        pytest.param((LOCK, STOP), True, Ready, id="stopped and locked by its owner"),
        pytest.param((LOCK, SYNC), True, Crashed, id="locked by its owner after it had died"),
        pytest.param((SYNC,), None, Ready, id="was off when the Eviction began"),
    ],
)
def test_instance_that_has_died_is_started_before_it_leaves_unless_its_owner_stopped_it(
    requests: tuple[ServerAction, ...], ran: bool | None, state: type
) -> None:
    known = EvictionStatus(instances=(entry(ran=ran),))
    of = facts(eviction(known), servers=(replace(OFF, died=True),), requests={"a": requests})
    (found,) = assess(situation(of), {})
    assert isinstance(found.state, state), found.state


def listing(*, active: bool) -> Hypervisor:
    """A host whose agent lists the instance, and has no incident."""
    return Hypervisor(
        metadata=ObjectMeta(name="here"),
        status=HypervisorStatus(instances=(Instance("a", "vm-a", active),)),
    )


DEAD = replace(OFF, died=True)


@pytest.mark.parametrize(
    ("of", "host", "ran"),
    [
        pytest.param(DEAD, listing(active=True), True, id="its agent is silent since it ran"),
        pytest.param(DEAD, reporting("EndedByBoot", reaction="Wait"), True, id="to be recovered"),
        pytest.param(DEAD, reporting("Crash"), True, id="by an agent that gives no reaction"),
        pytest.param(DEAD, reporting("Crash", reaction="Report"), False, id="left off"),
        pytest.param(DEAD, reporting("Crash", "b"), False, id="another has crashed"),
        pytest.param(DEAD, reporting("EndedByBoot", None), False, id="some have ended with it"),
        pytest.param(DEAD, listing(active=False), False, id="was off before"),
        pytest.param(DEAD, None, False, id="no Hypervisor"),
        pytest.param(replace(OFF, died=False), listing(active=True), False, id="shut down"),
        pytest.param(server(), listing(active=True), False, id="runs"),
    ],
)
def test_instance_ran_until_it_died_where_its_node_agent_has_reported_so(
    of: Server, host: Hypervisor | None, ran: bool
) -> None:
    assert ran_until_it_died(of, host) is ran


def on_its_hosts_word(host: Hypervisor | None, track: Track = FRESH) -> Assessment:
    """The state of a dead instance of an Eviction that has just begun, without Nova."""
    of = facts(eviction(), servers=(DEAD,), hypervisor=host, keeps_servers=False)
    (found,) = assess(situation(of), {"a": track})
    return found


@pytest.mark.parametrize("host", [listing(active=True), reporting("EndedByBoot", reaction="Wait")])
def test_instance_that_ended_with_its_host_is_started_before_it_leaves(host: Hypervisor) -> None:
    found = on_its_hosts_word(host)
    assert isinstance(found.state, Crashed), found.state
    assert entry_of(found, NOW.now).ran


def test_instance_that_may_have_ended_with_its_host_waits_for_its_agent_s_report() -> None:
    found = on_its_hosts_word(listing(active=False))
    assert isinstance(found.state, Waiting), found.state
    later = replace(found.track, since=found.track.since - POLICY.report_lag.total_seconds())
    assert isinstance(on_its_hosts_word(listing(active=False), later).state, Waiting)
    later = replace(later, since=later.since - 1)
    assert isinstance(on_its_hosts_word(listing(active=False), later).state, Ready)


def crowded(number: int, *, least: str = "Critical", reaction: str = "Wait") -> Hypervisor:
    """A host with so many crashed instances, of which the last is `least` grave."""
    incidents = tuple(
        Incident(f"x{n}", "Crash", "Critical", instance=f"b{n}", reaction=reaction)
        for n in range(number - 1)
    )
    last = Incident("last", "OutOfBand", least, instance="last")
    status = HypervisorStatus(incidents=(*incidents, last))
    return Hypervisor(metadata=ObjectMeta(name="here"), status=status)


@pytest.mark.parametrize(
    ("of", "host", "unnamed"),
    [
        pytest.param(DEAD, crowded(20), True, id="dead by libvirt"),
        pytest.param(OFF, crowded(20), True, id="off by Nova, which knows no reason"),
        pytest.param(replace(OFF, died=False), crowded(20), False, id="shut down by its guest"),
        pytest.param(replace(DEAD, id="b3"), crowded(20), False, id="named"),
        pytest.param(DEAD, crowded(19), False, id="there is room"),
        pytest.param(DEAD, crowded(20, least="Info"), False, id="a lesser incident is shown"),
        pytest.param(server(), crowded(20), False, id="runs"),
        pytest.param(DEAD, None, False, id="no Hypervisor"),
    ],
)
def test_status_that_is_full_may_lack_the_incident_of_an_instance_that_is_off(
    of: Server, host: Hypervisor | None, unnamed: bool
) -> None:
    assert may_be_unnamed(of, host) is unnamed


@pytest.mark.parametrize("nova", [True, False])
def test_instance_whose_crash_may_not_be_shown_waits_and_is_given_up_by_name(nova: bool) -> None:
    """A status names 20; the others must not be moved as if their owners had stopped them."""

    def state_of(host: Hypervisor, track: Track = FRESH) -> Assessment:
        of = facts(
            eviction(),
            servers=(OFF if nova else DEAD,),
            hypervisor=host,
            keeps_servers=nova,
        )
        (found,) = assess(situation(of), {"a": track})
        return found

    found = state_of(crowded(20))
    assert isinstance(found.state, Waiting), found.state
    assert "shows as many incidents as it can" in found.state.message
    long_ago = found.track.since - POLICY.patience.total_seconds() - 1
    given_up = state_of(crowded(20), replace(found.track, since=long_ago))
    assert isinstance(given_up.state, Stranded), given_up.state
    (crash,) = reporting("Crash", reaction="Wait").status.incidents
    fewer = crowded(18)
    named = with_fields(
        fewer, status=with_fields(fewer.status, incidents=(*fewer.status.incidents, crash))
    )
    found = state_of(named, found.track)
    if not nova:  # with Nova `with_deaths` has marked it by then
        assert isinstance(found.state, Crashed), found.state


def test_requests_of_crashed_instances_are_read_though_the_eviction_only_moves() -> None:
    servers = (replace(OFF, died=True), server("b"), server("c", status="SHUTOFF"))
    assert requests_to_be_read(situation(facts(servers=servers))) == ("a",)


def test_requests_are_read_of_instances_that_ran_and_are_off_where_they_were_evacuated_to() -> None:
    known = EvictionStatus(instances=tuple(entry(id_, ran=id_ != "c") for id_ in "abc"))
    elsewhere = {"a": server("a", status="SHUTOFF"), "b": server("b"), "c": replace(OFF, id="c")}
    of = facts(eviction(known), elsewhere=elsewhere)
    assert requests_to_be_read(situation(of)) == ("a",)


@pytest.mark.parametrize(
    ("host", "state"),
    [
        pytest.param(
            reporting("Crash", seen=NOW.now - timedelta(seconds=19)), Waiting, id="just now"
        ),
        pytest.param(
            reporting("Crash", seen=NOW.now - timedelta(seconds=20)), Ready, id="a while ago"
        ),
        pytest.param(reporting("Crash"), Ready, id="at an unknown time"),
        pytest.param(reporting("Crash", "b", NOW.now), Ready, id="another instance"),
        pytest.param(reporting("ManyCrashes", None, NOW.now), Ready, id="an incident of the host"),
        pytest.param(reporting("Watchdog", seen=NOW.now), Ready, id="no crash"),
        pytest.param(hypervisor(), Ready, id="no incident"),
        pytest.param(None, Ready, id="no Hypervisor"),
    ],
)
def test_crashed_instance_is_not_migrated_before_nova_shows_it_off(
    host: Hypervisor | None, state: type
) -> None:
    of = facts(servers=(server(),), hypervisor=host, service="Nova")
    (found,) = assess(situation(of), {})
    assert isinstance(found.state, state), found.state
    if state is Waiting:
        assert found.state.message == (
            "the node agent reports its crash; waiting until Nova shows it off"
        )


def test_instance_that_nova_already_shows_off_is_not_waited_for() -> None:
    of = facts(servers=(OFF,), hypervisor=reporting("Crash", seen=NOW.now))
    (found,) = assess(situation(of), {})
    assert isinstance(found.state, Ready), found.state


@pytest.mark.parametrize(
    ("trigger", "status", "active", "revived"),
    [
        pytest.param("InstanceCrash", "True", True, True, id="runs"),
        pytest.param("InstanceCrash", "True", False, False, id="is off"),
        pytest.param("InstanceCrash", "Unknown", True, False, id="its agent is silent"),
        pytest.param("RebootFailed", "True", True, False, id="may hang, and run all the time"),
        pytest.param(None, "True", True, False, id="no crash"),
    ],
)
def test_crashed_instance_runs_again_by_the_report_of_its_agent(
    trigger: str | None, status: str, active: bool, revived: bool
) -> None:
    conditions = set_condition((), _Type.AGENT_REPORTING, status, "Reporting", "", now=NOW.now)
    conditions = set_condition(
        conditions, _Type.LIBVIRT_CONNECTION, "True", "Connected", "", now=NOW.now
    )
    host = Hypervisor(
        metadata=ObjectMeta(name="here"),
        status=HypervisorStatus(
            instances=(Instance(id="a", name="instance-1", active=active),),
            conditions=conditions,
        ),
    )
    assert is_revived(server(), host, trigger) is revived
    assert not is_revived(server("b"), host, trigger)
    assert not is_revived(server(), None, trigger)


@pytest.mark.parametrize(
    ("later", "differs"),
    [
        pytest.param(reporting("Crash", seen=NOW.now), False, id="as before"),
        pytest.param(reporting("Crash", seen=NOW.now + timedelta(seconds=9)), True, id="again"),
        pytest.param(reporting("Crash", "b", NOW.now), True, id="of another"),
        pytest.param(reporting("ManyCrashes", None, NOW.now), True, id="of many"),
        pytest.param(hypervisor(), True, id="over"),
    ],
)
def test_another_death_on_a_host_is_distinguished_from_earlier_ones(
    later: Hypervisor, differs: bool
) -> None:
    assert (reported(later) != reported(reporting("Crash", seen=NOW.now))) is differs


@pytest.mark.parametrize(
    "host", [pytest.param(reporting("IOError", seen=NOW.now), id="no death"), None, hypervisor()]
)
def test_host_without_deaths_reports_none(host: Hypervisor | None) -> None:
    assert not reported(host)
