"""Cron jobs on a cluster in memory, on virtual time."""

import asyncio
from datetime import datetime

import pytest

from controller_manager.api.batch.v1 import CRON_JOBS
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster
from tests.controllers.batch.cronjob.builders import (
    CONFIG,
    TEMPLATE,
    Cron,
    after,
    owner_json,
    run_name,
    until_minute,
    writes_of,
)
from tests.controllers.responses import refusal
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


CREATED = "tick Normal SuccessfulCreate [cronjob-controller]: Created job "
FORBIDDEN = (
    "tick Normal JobAlreadyActive [cronjob-controller]: Not starting job because prior "
    "execution is running and concurrency policy is Forbid"
)
STATUS = ("PUT", "cronjobs/tick/status", 200)


async def test_a_run_starts_a_tenth_of_a_second_after_its_time(cron: Cron) -> None:
    """Nothing happens before, and nothing is written between two runs."""
    cron.create()
    async with cron.cluster.manager(CONFIG) as recording:
        await until_minute(1, 0.09)
        assert (cron.jobs(), recording.writes) == ([], [])
        await until_minute(1, 0.11)
        assert cron.jobs() == [run_name(1)]
        assert cron.times() == (after(60), None)
        await until_minute(2, 0.09)
        assert writes_of(recording) == [("POST", "jobs", 201), STATUS]
        await until_minute(2, 0.11)
        assert cron.active() == [run_name(1), run_name(2)]


@pytest.mark.parametrize(
    ("start", "zone", "runs"),
    [
        ("2026-10-24T22:00:00", "Europe/Berlin", ["00:30", "01:30"]),
        ("2026-10-24T22:00:00", "Etc/UTC", ["02:30"]),
        ("2026-03-28T23:00:00", "Europe/Berlin", []),
        ("2026-03-28T23:00:00", "Etc/UTC", ["02:30"]),
    ],
    ids=["end of summer time", "in UTC", "start of summer time", "in UTC then"],
)
async def test_clock_changes_move_runs(start: str, zone: str, runs: list[str]) -> None:
    """Each run has a job of its own, also with Forbid: the first one has ended."""
    cron = Cron(Cluster(epoch=datetime.fromisoformat(f"{start}+00:00")))
    cron.create(schedule="30 2 * * *", timeZone=zone, concurrencyPolicy="Forbid")
    started = []
    async with cron.cluster.manager(CONFIG):
        for half_hour in range(12):
            await until_minute(30 * half_hour)
            for name in cron.active():
                started.append(cron.cluster.clock.now().strftime("%H:%M"))
                cron.end_job(name)
    assert (started, len(cron.jobs())) == (runs, len(runs))


async def test_a_job_has_the_fields_of_its_template(cron: Cron) -> None:
    """Labels, annotations, owner, the annotation of the run, and the whole spec."""
    template = {
        "metadata": {
            "labels": {"team": "a"},
            "annotations": {"note": "x"},
            "finalizers": ["example.com/f"],
        },
        "spec": {**TEMPLATE["spec"], "backoffLimit": 2},
    }
    uid = cron.create(template=template, timeZone="Asia/Kolkata")
    async with cron.cluster.manager(CONFIG):
        await until_minute(1)
    (job,) = cron.all("Job")
    metadata = {
        name: job["metadata"].get(name)
        for name in ("name", "labels", "annotations", "finalizers", "ownerReferences")
    }
    assert metadata == {
        "name": run_name(1),
        "labels": {"team": "a"},
        "annotations": {
            "note": "x",
            "batch.kubernetes.io/cronjob-scheduled-timestamp": (
                "2026-01-01T05:31:00+05:30"
            ),
        },
        "finalizers": None,
        "ownerReferences": [{**owner_json(uid), "blockOwnerDeletion": True}],
    }
    assert job["spec"]["backoffLimit"] == 2
    assert cron.get("CronJob", "tick")["status"]["active"] == [
        {
            "kind": "Job",
            "namespace": "default",
            "name": run_name(1),
            "uid": job["metadata"]["uid"],
            "apiVersion": "batch/v1",
            "resourceVersion": job["metadata"]["resourceVersion"],
        }
    ]


async def test_the_latest_missed_run_of_an_uneven_schedule_starts(cron: Cron) -> None:
    """Upstream counts in steps of ten minutes here, and finds no latest run."""
    cron.create(
        schedule="0,10 12 * * *", status={"lastScheduleTime": after(-5 * 86400)}
    )
    async with cron.cluster.manager(CONFIG):
        await asyncio.sleep(1)
    assert cron.jobs() == [run_name(-12 * 60 + 10)]
    assert cron.events() == [f"{CREATED}{run_name(-12 * 60 + 10)}"]


async def test_forbid_starts_the_blocked_run_at_the_end(cron: Cron) -> None:
    """Also if that is between two runs; failed and complete jobs are alike."""
    cron.create(concurrencyPolicy="Forbid")
    async with cron.cluster.manager(CONFIG):
        await until_minute(3)
        assert cron.active() == [run_name(1)]
        cron.end_job(run_name(1), "Failed")
        await until_minute(3, 5)
        assert cron.active() == [run_name(3)]
    assert cron.times() == (after(180), None)
    assert cron.events() == [
        FORBIDDEN,
        (
            "tick Normal SawCompletedJob [cronjob-controller]: "
            f"Saw completed job: {run_name(1)}, condition: Failed"
        ),
        f"{CREATED}{run_name(1)}",
        f"{CREATED}{run_name(3)}",
    ]


async def test_a_changed_schedule_starts_nothing_by_itself(cron: Cron) -> None:
    """A run of the past now looks missed; another change starts that run."""
    cron.create(schedule="0 0 * * *", status={"lastScheduleTime": after(-86400)})
    async with cron.cluster.manager(CONFIG):
        await until_minute(30)
        assert cron.jobs() == [run_name(0)]
        cron.edit("CronJob", "tick", schedule="10 0 * * *")
        await until_minute(40)
        assert cron.jobs() == [run_name(0)]
        cron.edit("CronJob", "tick", failedJobsHistoryLimit=5)
        await until_minute(41)
        assert cron.jobs() == [run_name(0), run_name(10)]


async def test_a_changed_schedule_starts_its_next_run(cron: Cron) -> None:
    """The cron job is synced for it without any other change."""
    cron.create(schedule="0 12 * * *")
    async with cron.cluster.manager(CONFIG):
        await until_minute(1)
        cron.edit("CronJob", "tick", schedule="5 * * * *")
        await until_minute(5)
        assert cron.jobs() == [run_name(5)]


async def test_a_stored_status_without_a_change_is_not_written(cron: Cron) -> None:
    """Touching a cron job costs no write."""
    cron.create(suspend=True)
    async with cron.cluster.manager(CONFIG) as recording:
        for number in range(5):
            touched = {"metadata": {"annotations": {"touched": str(number)}}}
            await cron.cluster.client.patch(CRON_JOBS, "default", "tick", touched)
            await asyncio.sleep(1)
    assert [each for each in writes_of(recording) if each[0] != "PATCH"] == []


UNKNOWN_ZONE = (
    "tick Warning UnknownTimeZone [cronjob-controller]: "
    'invalid timeZone: "Mars/Phobos": unknown time zone Mars/Phobos'
)
UNPARSEABLE = (
    "tick Warning UnParseableCronJobSchedule [cronjob-controller]: "
    "unparseable schedule for cronjob: every day"
)


@pytest.mark.parametrize(
    ("schedule", "events"),
    [("* * * * *", [UNKNOWN_ZONE]), ("every day", [UNPARSEABLE, UNKNOWN_ZONE])],
)
async def test_only_a_schedule_is_called_unparseable(
    cron: Cron, schedule: str, events: list[str]
) -> None:
    """A missing time zone is not: an API server may know more time zones."""
    cron.create(schedule="0 0 1 1 *")
    async with cron.cluster.manager(CONFIG):
        await asyncio.sleep(5)
        body = cron.get("CronJob", "tick")
        changed = {**body["spec"], "timeZone": "Mars/Phobos", "schedule": schedule}
        kind = cron.cluster.server.catalogue.of("batch/v1", "CronJob")
        assert kind is not None
        key = ("default", "tick")
        cron.cluster.server.objects.put(kind, key, {**body, "spec": changed})
        await asyncio.sleep(5)
    assert cron.events() == events


async def test_a_deletion_that_a_conflict_refuses_is_tried_again(cron: Cron) -> None:
    """A webhook may answer with a conflict; without a retry the job would stay."""
    cron.create(concurrencyPolicy="Replace")
    conflicts: list[Request] = []

    async def refuse(request: Request) -> Response | None:
        if request.method != "DELETE" or conflicts:
            return None
        conflicts.append(request)
        return refusal(409, "Conflict")

    transport = Meddler(cron.cluster.transport, refuse)
    async with cron.cluster.manager(CONFIG, transport=transport):
        await until_minute(2)
    assert (cron.jobs(), cron.active()) == ([run_name(2)], [run_name(2)])
    (conflict,) = conflicts
    assert conflict.path.endswith(f"/default/jobs/{run_name(1)}")
    assert cron.events() == [
        f"{CREATED}{run_name(1)}",
        f"{CREATED}{run_name(2)}",
        f"tick Normal SuccessfulDelete [cronjob-controller]: Deleted job {run_name(1)}",
        "tick Warning FailedDelete [cronjob-controller]: Deleted job: no",
    ]


UNEXPECTED = (
    "tick Warning UnexpectedJob [cronjob-controller]: "
    "Saw a job that the controller did not create or forgot: "
)


async def test_a_job_made_by_hand_is_reported_and_not_listed(cron: Cron) -> None:
    """It does not stop runs of a Forbid cron job; its success counts."""
    uid = cron.create(concurrencyPolicy="Forbid")
    cron.add_job("mine", uid, scheduled=False)
    async with cron.cluster.manager(CONFIG):
        await until_minute(1)
        assert cron.active() == [run_name(1)]
        cron.end_job("mine")
        await asyncio.sleep(1)
        assert cron.times() == (after(60), after(61))
    assert [each for each in cron.events() if "UnexpectedJob" in each] == [
        f"{UNEXPECTED}mine"
    ]


async def test_a_foreign_job_with_the_name_of_the_run_is_reported(cron: Cron) -> None:
    """The foreign job does not change, and the next run starts."""
    cron.create()
    cron.add_job(run_name(1), "somebody", "else", scheduled=True)
    async with cron.cluster.manager(CONFIG) as recording:
        await until_minute(2)
    assert cron.active() == [run_name(2)]
    assert cron.times() == (after(120), None)
    assert writes_of(recording) == [
        ("POST", "jobs", 409),
        ("POST", "jobs", 201),
        STATUS,
    ]
    assert cron.events() == [
        f"{CREATED}{run_name(2)}",
        (
            "tick Warning FailedCreate [cronjob-controller]: Error creating job: "
            f'jobs.batch "{run_name(1)}" already exists, and this cron job does not '
            "control it"
        ),
    ]


async def test_the_job_of_an_earlier_namesake_is_foreign(cron: Cron) -> None:
    """Upstream goes by the owner's name: it would count and delete such jobs."""
    cron.create(successfulJobsHistoryLimit=0)
    cron.add_job("old", "a-uid-of-the-past", scheduled=True)
    cron.end_job("old")
    async with cron.cluster.manager(CONFIG):
        await asyncio.sleep(30)
    assert cron.jobs() == ["old"]
    assert cron.times() == (None, None)
