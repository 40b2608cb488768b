from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hypercobalt.adapters.libvirt.model import JobStats, JobType, JobValue
from hypercobalt.api import codec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import (
    Migration,
    MigrationOperation,
    MigrationSpec,
    MigrationStatus,
    MigrationType,
    label_value,
)
from hypercobalt.node_agent.migrations import rules
from hypercobalt.node_agent.settings import MigrationNames, Retention

NOW = datetime(2026, 11, 21, 8, 45, 30, 250_000, tzinfo=UTC)
UUID = "12e479eb-6bef-4fdb-bfdc-0388df68bed9"
MIB = 1024 * 1024


def stats(type_: JobType = JobType.UNBOUNDED, **values: JobValue) -> JobStats:
    return JobStats(type_, {"operation": 5, **values})


def row(status: MigrationStatus) -> list[str]:
    fields = ("type", "operation", "timeElapsed", "dataTotal", "dataProcessed", "dataRemaining")
    rates = ("memBps", "memDirtyRate", "memIteration")
    return [str(getattr(status, name)) for name in (*fields, *rates)]


@pytest.mark.parametrize(
    ("job", "columns"),
    [
        pytest.param(
            JobStats(
                JobType.COMPLETED,
                {
                    "operation": 4,
                    "time_elapsed": 2755,
                    "data_total": 4 * 1024 * MIB,
                    "data_processed": round(10.4 * MIB),
                    "data_remaining": 0,
                    "memory_bps": round(16.5 * MIB),
                    "memory_dirty_rate": 0,
                    "memory_iteration": 3,
                },
            ),
            "completed migration_in 2.755s 4.0_GiB 10.4_MiB 0_B 16.5_MiB/s 0/s 3",
        ),
        pytest.param(
            stats(
                JobType.COMPLETED,
                time_elapsed=2766,
                data_total=4 * 1024 * MIB,
                data_processed=398 * MIB,
                data_remaining=round(718.8 * MIB),
                memory_bps=round(588.9 * MIB),
                memory_dirty_rate=0,
                memory_iteration=1,
            ),
            "completed migration_out 2.766s 4.0_GiB 398.0_MiB 718.8_MiB 588.9_MiB/s 0/s 1",
        ),
        pytest.param(
            stats(
                JobType.COMPLETED,
                time_elapsed=35078,
                data_total=64 * 1024 * MIB,
                data_processed=round(58.4 * 1024 * MIB),
                data_remaining=0,
                memory_bps=round(1.8 * 1024 * MIB),
                memory_dirty_rate=1250,
                memory_iteration=4,
            ),
            "completed migration_out 35.078s 64.0_GiB 58.4_GiB 0_B 1.8_GiB/s 1250/s 4",
        ),
    ],
)
def test_columns_are_those_of_the_existing_table(job: JobStats, columns: str) -> None:
    assert row(rules.with_stats(MigrationStatus(), job)) == [
        column.replace("_", " ") if not column.startswith("migration") else column
        for column in columns.split(" ")
    ]


def test_every_field_of_libvirt_has_its_form() -> None:
    status = rules.with_stats(
        MigrationStatus(origin="a"),
        stats(
            time_remaining=62_000,
            downtime=16,
            setup_time=0,
            memory_constant=0,
            memory_normal=7,
            memory_normal_bytes=7 * 4096,
            memory_page_size=4096,
            memory_postcopy_requests=2,
            disk_total=1023,
            disk_bps=0,
            auto_converge_throttle=20,
            errmsg="went \udcffwrong",
        ),
    )

    assert status == MigrationStatus(
        origin="a",
        type="unbounded",
        operation="migration_out",
        timeRemaining="1m2s",
        downtime="16ms",
        setupTime="0s",
        memNormal=7,
        memNormalBytes="28.0 KiB",
        memPageSize="4.0 KiB",
        memPostcopyRequests=2,
        diskTotal="1023 B",
        diskBps="0 B/s",
        autoConvergeThrottle="20%",
        errMsg="went ?wrong",
    )


def test_values_that_the_statistics_lack_stay() -> None:
    before = rules.with_stats(MigrationStatus(), stats(downtime=16, data_total=MIB))

    after = rules.with_stats(before, stats(JobType.COMPLETED, data_processed=MIB))

    assert (after.downtime, after.dataTotal, after.dataProcessed) == ("16ms", "1.0 MiB", "1.0 MiB")


def test_an_operation_that_is_not_known_and_an_empty_error_stay_out() -> None:
    status = rules.with_stats(
        MigrationStatus(), stats(operation=len(MigrationOperation), errmsg="")
    )

    assert (status.operation, status.errMsg) == (None, None)


def test_a_patch_has_what_changes_and_what_goes() -> None:
    old = MigrationStatus(type="unbounded", origin="kvm-a", timeRemaining="5s")

    changed = rules.changed_fields(old, MigrationStatus(type="completed", origin="kvm-a"))

    assert changed == {"type": "completed", "timeRemaining": None}


values = st.one_of(st.integers(-(2**70), 2**70), st.booleans(), st.text("aß\udcff"), st.floats())
names = st.sampled_from(
    [
        "time_elapsed",
        "downtime",
        "data_total",
        "memory_bps",
        "memory_constant",
        "operation",
        "memory_dirty_rate",
        "auto_converge_throttle",
        "errmsg",
        "success",
    ]
)


@given(st.dictionaries(names, values))
def test_no_statistics_make_a_status_that_cannot_be_written(given_: dict[str, JobValue]) -> None:
    job = JobStats(JobType.UNBOUNDED, given_)

    status = rules.with_stats(MigrationStatus(started=rules.started_at(job, NOW)), job)

    assert codec.encode(status)
    assert all(0 <= count < 2**63 for count in (status.memConstant or 0, status.memNormal or 0))


@pytest.mark.parametrize(
    ("job", "type_", "error"),
    [
        (stats(JobType.COMPLETED), "completed", None),
        (stats(JobType.COMPLETED, success=True), "completed", None),
        (stats(JobType.COMPLETED, success=False, errmsg="no space"), "failed", "no space"),
        (stats(JobType.FAILED), "failed", "the migration failed"),
        (stats(JobType.FAILED, success=False), "failed", "the migration failed"),
        (stats(JobType.CANCELLED), "cancelled", "the migration was cancelled"),
    ],
)
def test_ending_of_a_job_gives_type_and_error(job: JobStats, type_: str, error: str | None) -> None:
    ending = rules.ending_of(job)

    assert ending is not None
    status = rules.finish(MigrationStatus(timeRemaining="5s"), ending)
    assert (status.type, status.errMsg, status.timeRemaining) == (type_, error, None)


@pytest.mark.parametrize("type_", [JobType.NONE, JobType.BOUNDED, JobType.UNBOUNDED])
def test_a_job_that_goes_on_has_no_ending(type_: JobType) -> None:
    assert rules.ending_of(stats(type_)) is None


@pytest.mark.parametrize(
    ("word", "type_", "text"),
    [
        ("failed", "failed", "the migration failed"),
        ("cancelled", "cancelled", "was cancelled, on request"),
        ("cancelling", "cancelled", "was cancelled, on request"),
        ("active", "failed", "failed or was cancelled"),
        ("", "failed", "failed or was cancelled"),
    ],
)
def test_migration_whose_job_was_gone_first_ends_by_its_state(
    word: str, type_: str, text: str
) -> None:
    ending = rules.stayed(word)

    assert ending.type == type_
    assert text in (ending.error or "")


def test_completed_at_last_forgets_an_earlier_error() -> None:
    status = rules.finish(MigrationStatus(errMsg="retrying"), rules.Ending(MigrationType.COMPLETED))

    assert (status.type, status.errMsg) == ("completed", None)


def test_the_start_is_reckoned_back_and_names_the_object() -> None:
    started = rules.started_at(stats(time_elapsed=3_500), NOW)
    of_start, of_server = (
        rules.new_migration(UUID, started, "kvm-a", namespace="ns", names=names).metadata
        for names in MigrationNames
    )

    assert started == datetime(2026, 11, 21, 8, 45, 26, tzinfo=UTC)
    assert of_start.name == f"{UUID}-20261121-084526"
    assert of_server.name == UUID
    assert of_start.labels == {"kvm.cloud.sap/server": UUID, "kvm.cloud.sap/origin": "kvm-a"}


@pytest.mark.parametrize(
    ("job", "before"),
    [
        pytest.param(None, timedelta(0), id="no job"),
        pytest.param(stats(), timedelta(0), id="no elapsed time"),
        pytest.param(stats(time_elapsed=999), timedelta(seconds=1), id="to the second"),
        pytest.param(stats(time_elapsed=2**62), timedelta(seconds=10**9), id="absurdly long"),
    ],
)
def test_start_of_a_job_is_its_elapsed_time_before_the_read(
    job: JobStats | None, before: timedelta
) -> None:
    now = NOW.replace(microsecond=0)

    assert rules.started_at(job, now) == now - before


@pytest.mark.parametrize(
    ("name", "began", "same"),
    [
        pytest.param(UUID, NOW, True, id="the same"),
        pytest.param(UUID, NOW - timedelta(seconds=2), True, id="read off again"),
        pytest.param(UUID, NOW + timedelta(seconds=3), True, id="read off again, later"),
        pytest.param(UUID, NOW + timedelta(seconds=3.1), False, id="too much later"),
        pytest.param(UUID, NOW - timedelta(hours=1), False, id="an earlier one"),
        pytest.param(UUID, None, False, id="no status, nor a start in the name"),
        pytest.param(f"{UUID}-20261121-084530", None, True, id="no status, but the name"),
        pytest.param(f"{UUID}-20261121-074530", None, False, id="the name of another"),
        pytest.param(f"{UUID}-20269921-074530", None, False, id="an odd name"),
        pytest.param("", None, False, id="no name"),
    ],
)
def test_object_belongs_to_the_migration_of_its_name_and_start(
    name: str, began: datetime | None, same: bool
) -> None:
    stored = Migration(
        metadata=ObjectMeta(name=name),
        spec=MigrationSpec(),
        status=MigrationStatus(started=began),
    )

    assert rules.is_of(stored, NOW) is same


@pytest.mark.parametrize("text", ["a" * 64, "ü", "", "-a", "a_", "node.example.com" * 10])
def test_text_that_is_no_label_value_becomes_one(text: str) -> None:
    made = label_value(text)

    assert len(made) == 40
    assert made.isalnum()
    assert label_value("node-1.example.com") == "node-1.example.com"


def migration(
    name: str,
    *,
    age: timedelta = timedelta(minutes=1),
    made: timedelta | None = None,
    took: str | None = None,
    type_: str | None = None,
    origin: str = "kvm-a",
    destination: str | None = None,
) -> Migration:
    """A Migration that began so long ago, in an object created then or at another time."""
    began = NOW - age
    return Migration(
        metadata=ObjectMeta(name=name, creationTimestamp=began if made is None else NOW - made),
        spec=MigrationSpec(),
        status=MigrationStatus(
            origin=origin, destination=destination, type=type_, started=began, timeElapsed=took
        ),
    )


HOUR, LONG = timedelta(hours=1), timedelta(days=2)


@pytest.mark.parametrize(
    ("there", "claimed"),
    [
        pytest.param([], None, id="none"),
        pytest.param([migration("m")], "m", id="one under way"),
        pytest.param([migration("m", age=LONG)], "m", id="one that takes long"),
        pytest.param([migration("old", age=LONG), migration("new")], "new", id="the newest of two"),
        pytest.param(
            [migration("m"), migration("later", age=timedelta(seconds=-11))],
            "m",
            id="one that has not begun is none",
        ),
        pytest.param([migration("m", age=timedelta(seconds=-9))], "m", id="clock that is fast"),
        pytest.param([migration("m", type_="completed", took="1m")], "m", id="over before we look"),
        pytest.param([migration("m", type_="completed", took="55s")], "m", id="clocks differ"),
        pytest.param([migration("m", type_="completed", took="50s")], None, id="by all of 10 s"),
        pytest.param([migration("m", type_="completed", took="9s")], None, id="over before that"),
        pytest.param([migration("m", type_="completed")], None, id="began before, takes no time"),
        pytest.param([migration("m", type_="completed", took="x")], None, id="no duration"),
        pytest.param(
            [migration("m", type_="completed", took="2540400h")], "m", id="a very long one"
        ),
        pytest.param([migration("m", type_="completed", age=LONG)], None, id="an old one"),
        pytest.param([migration("m", type_="failed")], None, id="failed"),
        pytest.param([migration("m", destination="kvm-c")], None, id="another's"),
        pytest.param([migration("m", destination="kvm-b")], "m", id="ours already"),
        pytest.param(
            [migration("m", destination="kvm-b", type_="completed", took="1m")],
            None,
            id="ours, but over",
        ),
        pytest.param([migration("m", origin="kvm-b")], None, id="leaves us"),
        pytest.param(
            [replace(migration("m"), status=MigrationStatus(origin="kvm-a"))],
            None,
            id="made, but its status is not written yet",
        ),
    ],
)
def test_arrival_claims_the_open_migration_to_its_host(
    there: list[Migration], claimed: str | None
) -> None:
    found = rules.to_claim(there, "kvm-b", NOW, NOW)

    assert (found.metadata.name if found else None) == claimed


@pytest.mark.parametrize(
    ("there", "claimed"),
    [
        pytest.param([], None, id="none"),
        pytest.param([migration("m")], "m", id="under way"),
        pytest.param([migration("m", type_="completed")], "m", id="over"),
        pytest.param(
            [migration("m"), migration("later", age=timedelta(seconds=-11), destination="kvm-c")],
            "m",
            id="one that has not begun brought nothing",
        ),
        pytest.param([migration("m", type_="completed", age=HOUR)], "m", id="over for an hour"),
        pytest.param([migration("m", type_="completed", age=LONG)], None, id="over for long"),
        pytest.param([migration("m", age=LONG)], "m", id="never marked as ended"),
        pytest.param([migration("m", age=LONG, destination="kvm-b")], "m", id="ours, not ended"),
        pytest.param([migration("m", type_="completed", destination="kvm-b")], None, id="complete"),
        pytest.param(
            [
                migration("old", type_="completed", age=timedelta(minutes=5)),
                migration("new", type_="completed", destination="kvm-b"),
            ],
            None,
            id="an earlier one is not ours",
        ),
        pytest.param(
            [
                migration("old", type_="completed", age=timedelta(minutes=5)),
                migration("new", type_="failed", origin="kvm-c"),
            ],
            "old",
            id="a failed one brought nothing",
        ),
        pytest.param(
            [
                migration("old", type_="completed", age=timedelta(minutes=5)),
                migration("new", origin="kvm-b"),
            ],
            "old",
            id="it leaves us again",
        ),
    ],
)
def test_unseen_arrival_belongs_to_the_last_migration_to_its_host(
    there: list[Migration], claimed: str | None
) -> None:
    found = rules.arrived_by(there, "kvm-b", NOW)

    assert (found.metadata.name if found else None) == claimed


@pytest.mark.parametrize(
    ("job", "outgoing"),
    [
        (None, False),
        (JobStats(JobType.UNBOUNDED, {"operation": 5}), True),
        (JobStats(JobType.UNBOUNDED, {"operation": 4}), False),
        (JobStats(JobType.UNBOUNDED), False),
    ],
)
def test_outgoing_migration_is_recognised_by_its_job(job: JobStats | None, outgoing: bool) -> None:
    assert rules.is_outgoing(job) is outgoing


@pytest.mark.parametrize(
    ("job", "arrived"),
    [
        (None, False),
        (JobStats(JobType.COMPLETED, {"operation": 4}), True),
        (JobStats(JobType.COMPLETED, {"operation": 5}), False),
        (JobStats(JobType.UNBOUNDED, {"operation": 4}), False),
        (JobStats(JobType.COMPLETED), False),
    ],
)
def test_arrival_is_recognised_by_the_last_job(job: JobStats | None, arrived: bool) -> None:
    assert rules.is_arrival(job) is arrived


def test_old_and_surplus_finished_ones_expire() -> None:
    days = [migration(f"d{n}", age=timedelta(days=n), type_="completed") for n in range(6)]
    running = migration("running", age=timedelta(days=99))

    def names(*, age: int, count: int) -> list[str]:
        gone = rules.expired([*days, running], NOW, Retention(timedelta(days=age), count))
        return [one.metadata.name for one in gone]

    assert names(age=30, count=50) == []
    assert names(age=4, count=50) == ["d5"]
    assert names(age=30, count=4) == ["d4", "d5"]
    assert names(age=0, count=0) == ["d0", "d1", "d2", "d3", "d4", "d5"]


def test_a_reused_object_is_as_old_as_its_last_migration() -> None:
    reused = migration("m", age=timedelta(minutes=1), made=timedelta(days=40), type_="completed")

    assert rules.expired([reused], NOW, Retention(timedelta(days=30), 50)) == ()


def test_migration_that_has_ended_stays_as_it_ended() -> None:
    ended = MigrationStatus(type="failed")
    assert rules.with_stats(ended, JobStats(JobType.UNBOUNDED, {})).type == "failed"
    assert rules.finish(ended, rules.Ending(MigrationType.COMPLETED)).type == "failed"
