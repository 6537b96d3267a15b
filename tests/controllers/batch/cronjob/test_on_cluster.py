"""Cron jobs on a cluster in memory, on virtual time."""

from datetime import datetime

import pytest

from controller_manager.options.config import Config
from tests.clusters import Cluster
from tests.controllers.batch.cronjob.builders import (
    CONFIG,
    TEMPLATE,
    Cron,
    owner_json,
    run_name,
    until_minute,
)
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios

pytestmark = pytest.mark.looptime


def config() -> Config:
    return CONFIG


@scenarios("batch/cronjob")
async def test_cron_jobs_run(scenario: Scenario) -> None:
    await scenario.play(Hands, config, Cron)


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
