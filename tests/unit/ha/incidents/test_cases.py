"""The record of an open incident, and its form in the status."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NOON, U1

from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import (
    MOST_EVIDENCE,
    DiskErrors,
    InstanceRecord,
    MadeEviction,
    State,
    Step,
    eviction_name,
    incident_of,
    key_of,
    may_have,
)
from hypercobalt.ha.incidents.signals import HOST

CASE = open_case(id="11111111-0123456789")


@pytest.mark.parametrize(
    ("uuid", "name", "shown"),
    [(U1, "vm-1", (U1, "vm-1")), (U1, "", (U1, None)), (HOST, "", (None, None))],
    ids=["an instance", "without a name", "the host"],
)
def test_incident_names_its_instance(
    uuid: str, name: str, shown: tuple[str | None, str | None]
) -> None:
    found = incident_of(InstanceRecord(uuid=uuid, name=name), CASE)
    assert (found.instance, found.name) == shown


@pytest.mark.parametrize(
    ("eviction", "step", "shown"),
    [
        pytest.param("ha-1", Step.FOLLOW, "ha-1", id="that was made"),
        pytest.param("ha-1", Step.RECOVER, None, id="that is still to be made"),
        pytest.param("", Step.NONE, None, id="that there is none of"),
    ],
)
def test_incident_names_an_eviction(eviction: str, step: Step, shown: str | None) -> None:
    case = CASE.with_evidence("it crashed").then(step, NOON)
    found = incident_of(InstanceRecord(uuid=U1), replace(case, eviction=eviction))
    assert (found.eviction, found.evidence) == (shown, ("it crashed",))


LONG = "kvm-" + "a" * 240


@pytest.mark.parametrize("host", ["kvm-a", LONG])
@pytest.mark.parametrize(
    ("about", "instances", "may"),
    [
        pytest.param(U1, (U1,), True, id="its own"),
        pytest.param(U1, ("other", U1), True, id="one of several"),
        pytest.param(U1, ("22222222-2222",), False, id="another instance's"),
        pytest.param(HOST, (U1,), True, id="of its host"),
    ],
)
def test_eviction_may_have_what_its_name_is_of(
    host: str, about: str, instances: tuple[str, ...], *, may: bool
) -> None:
    name = eviction_name(key_of(about, "s", IncidentType.CRASH), host)
    assert may_have(name, instances, host) is may
    assert not may_have("ha-kvm-b-0123456789", instances, host)


@pytest.mark.parametrize(("count", "shown"), [(7, 7), (2**31 - 1, 2**31 - 1), (2**31, 2**31 - 1)])
def test_count_of_an_incident_fits_its_field(count: int, shown: int) -> None:
    case = replace(CASE, count=count)
    assert incident_of(InstanceRecord(uuid=U1), case).count == shown


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        pytest.param(("a", "b"), ("a", "b"), id="in their order"),
        pytest.param(("a", "", "a", "b"), ("a", "b"), id="each once, and none that is empty"),
        pytest.param(("x" * 300,), ("x" * 256,), id="cut"),
        pytest.param(
            tuple(map(str, range(MOST_EVIDENCE))),
            tuple(map(str, range(MOST_EVIDENCE))),
            id="as many as there may be",
        ),
        pytest.param(
            tuple(map(str, range(MOST_EVIDENCE + 1))),
            ("0", *map(str, range(2, MOST_EVIDENCE + 1))),
            id="the first and the newest of more",
        ),
    ],
)
def test_evidence_is_bounded(texts: tuple[str, ...], kept: tuple[str, ...]) -> None:
    case = CASE
    for text in texts:
        case = case.with_evidence(text)
    assert case.evidence == kept


DISK = DiskErrors(path="/a", since=NOON)


def test_incident_is_shown_and_counted_once_at_first() -> None:
    assert (CASE.shown, CASE.count, DISK.count) == (True, 1, 1)


@pytest.mark.parametrize(
    ("one", "field"),
    [
        (CASE, "count"),
        (DISK, "count"),
        (MadeEviction("ha-1", NOON), "at"),
        (InstanceRecord(uuid=U1), "name"),
    ],
    ids=["case", "disk", "eviction", "instance"],
)
def test_history_is_never_changed_in_place(one: object, field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(one, field, None)


def test_instance_of_which_nothing_happened_is_not_known_to_do_anything() -> None:
    new = InstanceRecord(uuid=U1)
    assert (new.state, new.active, new.agent, new.agent_seen) == (State.UNKNOWN, *[False] * 3)
    assert (new.domain_id, new.memory_bytes, new.resumes) == (-1, 0, 0)


@pytest.mark.parametrize(
    ("type_", "about", "storage"),
    [
        (IncidentType.IO_ERROR, "/pool/a.raw", "/pool"),
        (IncidentType.STORAGE_DEGRADED, "/pool/a.raw", "/pool"),
        (IncidentType.IO_ERROR, "/dev/sda", None),
        (IncidentType.IO_ERROR, "", None),
        (IncidentType.CRASH, "/pool/a.raw", None),
    ],
)
def test_incident_names_the_storage_that_hosts_share(
    type_: IncidentType, about: str, storage: str | None
) -> None:
    assert (
        incident_of(InstanceRecord(uuid=U1), replace(CASE, type=type_, about=about)).storage
        == storage
    )
