"""Upstream's known faults with cron jobs, each played on purpose."""

import asyncio
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.batch.cronjob.workload import job_spec
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MINUTE_OF_EPOCH: Final = 29453760
"""The minutes from 1970 to the start of a scenario."""


async def run_beside_a_forgotten_one(environment: Environment) -> None:
    """No upstream issue: a process ended between a new job and the status.

    The job is not in status.active. Upstream reports it, and looks at status.active
    only before it starts the next run, so a Forbid cron job runs twice at once. Here
    the job is listed first.
    """
    owner = _create(environment, concurrencyPolicy="Forbid")
    _create_job(environment, f"backup-{_MINUTE_OF_EPOCH}", owner)
    await asyncio.sleep(130)
    assert _jobs(environment) == [f"backup-{_MINUTE_OF_EPOCH}"]
    assert _active(environment) == [f"backup-{_MINUTE_OF_EPOCH}"]


async def name_of_the_due_job_is_taken(environment: Environment) -> None:
    """No upstream issue, recorded: a job of the due run's name exists.

    Upstream reads it without a namespace, gets 404 and tries again until it is gone.
    Here it is reported, and the cron job goes on.
    """
    _create(environment)
    _create_job(environment, f"backup-{_MINUTE_OF_EPOCH + 1}")
    await asyncio.sleep(130)
    assert _active(environment) == [f"backup-{_MINUTE_OF_EPOCH + 2}"]


async def uneven_schedule_after_an_outage(environment: Environment) -> None:
    """No upstream issue: runs of an uneven schedule were missed.

    Upstream assumes that all missed runs have the distance of the first two, and finds
    no latest run. Here the latest run is started.
    """
    _create(environment, schedule="0,10 12 * * *", suspend=True)
    last = {"lastScheduleTime": "2025-12-25T12:10:00Z"}
    environment.world.change(
        "cronjobs", _get(environment), lambda obj: obj.update(status=last), "status"
    )
    _edit(environment, suspend=False)
    await asyncio.sleep(5)
    assert _active(environment) == [f"backup-{_MINUTE_OF_EPOCH - 12 * 60 + 10}"]


def _create(environment: Environment, **spec: Any) -> str:
    """Create a cron job that is due each minute; return its uid."""
    body = {"schedule": "* * * * *", "jobTemplate": {"spec": job_spec("backup")}}
    obj = {"metadata": {"name": "backup"}, "spec": {**body, **spec}}
    kind = environment.world.kind("cronjobs")
    environment.world.server.objects.create(kind, NAMESPACE, obj)
    return str(_get(environment)["metadata"]["uid"])


def _create_job(environment: Environment, name: str, owner: str = "") -> None:
    """Create the job of a run; `owner` is the uid of its cron job, if any."""
    reference = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "backup",
        "uid": owner,
        "controller": True,
    }
    obj = {
        "metadata": {
            "name": name,
            "annotations": {_SCHEDULED: "2026-01-01T00:00:00Z"},
            "ownerReferences": [reference] if owner else [],
        },
        "spec": job_spec("backup"),
    }
    kind = environment.world.kind("jobs")
    environment.world.server.objects.create(kind, NAMESPACE, obj)


def _edit(environment: Environment, **spec: Any) -> None:
    environment.world.change(
        "cronjobs", _get(environment), lambda obj: obj["spec"].update(spec)
    )


def _get(environment: Environment) -> JSON:
    found = environment.world.find("cronjobs", NAMESPACE, "backup")
    assert found is not None
    return found


def _jobs(environment: Environment) -> list[str]:
    return [
        each["metadata"]["name"] for each in environment.world.stored("jobs", NAMESPACE)
    ]


def _active(environment: Environment) -> list[str]:
    status = _get(environment).get("status", {})
    return [each["name"] for each in status.get("active", [])]


SCENARIOS: Final[tuple[Scenario, ...]] = (
    run_beside_a_forgotten_one,
    name_of_the_due_job_is_taken,
    uneven_schedule_after_an_outage,
)
