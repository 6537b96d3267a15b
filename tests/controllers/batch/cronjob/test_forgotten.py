"""Jobs of a cron job that it does not list, as after a process that ended in between.

The recording cron-forgotten shows that upstream never lists them, and cannot go on if
one of them has the name of the run that is due.
"""

import asyncio

import pytest

from tests.controllers.batch.cronjob.on_cluster import (
    CONFIG,
    Cron,
    at,
    run_name,
    until_minute,
    writes_of,
)

pytestmark = pytest.mark.looptime

UNEXPECTED = (
    "tick Warning UnexpectedJob [cronjob-controller]: "
    "Saw a job that the controller did not create or forgot: "
)


async def test_the_job_of_the_due_run_is_taken_as_that_run(cron: Cron) -> None:
    """It is listed and ends as any other; the run has no second job."""
    uid = cron.create(schedule="*/30 * * * *", status={"lastScheduleTime": at(-7200)})
    cron.add_job(run_name(0), uid, scheduled=True)
    async with cron.cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        assert cron.active() == [run_name(0)]
        assert cron.times() == (at(0), None)
        cron.end_job(run_name(0))
        await asyncio.sleep(1)
        cron.delete("Job", run_name(0))
        await until_minute(29)
        assert (cron.active(), cron.jobs()) == ([], [])
        assert cron.times() == (at(0), at(1))
    assert writes_of(recording) == [("PUT", "cronjobs/tick/status", 200)] * 2
    assert cron.events() == [
        (
            "tick Normal SawCompletedJob [cronjob-controller]: "
            f"Saw completed job: {run_name(0)}, condition: Complete"
        ),
        f"{UNEXPECTED}{run_name(0)}",
    ]


async def test_the_ended_job_of_the_due_run_is_taken_as_that_run(cron: Cron) -> None:
    """The time of the run is written, and no run starts again."""
    uid = cron.create(schedule="*/30 * * * *", status={"lastScheduleTime": at(-7200)})
    cron.add_job(run_name(0), uid, scheduled=True)
    cron.end_job(run_name(0))
    async with cron.cluster.manager(CONFIG) as recording:
        await until_minute(29)
    assert writes_of(recording) == [("PUT", "cronjobs/tick/status", 200)]
    assert (cron.active(), cron.times()) == ([], (at(0), at(0)))
    assert cron.events() == []


async def test_a_run_does_not_start_beside_an_unlisted_job(cron: Cron) -> None:
    """Of a Forbid cron job, also if the unlisted job is not of the run that is due."""
    uid = cron.create(
        schedule="* * * * *",
        concurrencyPolicy="Forbid",
        status={"lastScheduleTime": at(-600)},
    )
    cron.add_job(run_name(-8), uid, scheduled=True)
    async with cron.cluster.manager(CONFIG):
        await until_minute(2)
        assert cron.jobs() == [run_name(-8)]
        assert cron.active() == [run_name(-8)]
        cron.end_job(run_name(-8))
        await asyncio.sleep(1)
        assert cron.jobs() == [run_name(-8), run_name(2)]
        assert cron.active() == [run_name(2)]


async def test_a_job_made_by_hand_is_reported_and_not_listed(cron: Cron) -> None:
    """It does not stop runs of a Forbid cron job; its success counts."""
    uid = cron.create(concurrencyPolicy="Forbid")
    cron.add_job("mine", uid, scheduled=False)
    async with cron.cluster.manager(CONFIG):
        await until_minute(1)
        assert cron.active() == [run_name(1)]
        cron.end_job("mine")
        await asyncio.sleep(1)
        assert cron.times() == (at(60), at(61))
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
    assert cron.times() == (at(120), None)
    assert writes_of(recording) == [
        ("POST", "jobs", 409),
        ("POST", "jobs", 201),
        ("PUT", "cronjobs/tick/status", 200),
    ]
    assert cron.events() == [
        f"tick Normal SuccessfulCreate [cronjob-controller]: Created job {run_name(2)}",
        (
            "tick Warning FailedCreate [cronjob-controller]: Error creating job: "
            f'jobs.batch "{run_name(1)}" already exists, and this cron job does not '
            "control it"
        ),
    ]


async def test_the_job_of_an_earlier_cron_job_of_that_name_is_foreign(
    cron: Cron,
) -> None:
    """Upstream goes by the owner's name: it would count and delete such jobs."""
    cron.create(successfulJobsHistoryLimit=0)
    cron.add_job("old", "a-uid-of-the-past", scheduled=True)
    cron.end_job("old")
    async with cron.cluster.manager(CONFIG):
        await asyncio.sleep(30)
    assert cron.jobs() == ["old"]
    assert cron.times() == (None, None)
