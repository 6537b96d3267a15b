"""All objects of a namespace are explained at once."""

import pytest

from controller_manager.explain.answer import root_of
from controller_manager.explain.cause import State
from tests.explain.scenarios import claim, cron_job, deployment, quota, service
from tests.explain.stage import staged


@pytest.mark.looptime
async def test_only_objects_that_are_not_healthy_and_have_no_owner_are_explained() -> (
    None
):
    """Owners come first; the pods and replica sets are in the answers of theirs."""
    async with staged() as stage:
        await stage.play(deployment("bad", "x/broken:v1"), deployment("good"))
        await stage.play(service("app: good"), claim("gold"), 30)
        found = await stage.explain_all()
    assert [(str(each.object), each.state, each.causes[0].code) for each in found] == [
        ("Deployment shop/bad", State.STUCK, "RolloutWaits"),
        ("PersistentVolumeClaim shop/data", State.STUCK, "StorageClassMissing"),
    ]


@pytest.mark.looptime
async def test_a_recreated_deployment_waits_for_its_old_pods() -> None:
    """They hold the place of the new ones until they have ended."""
    old, new = (
        deployment(
            image=f"nginx:1.{tag}",
            spec="strategy: {type: Recreate}",
            note="devcluster/termination-seconds: '25'",
        )
        for tag in (27, 28)
    )
    async with staged() as stage:
        await stage.play(old, 10, new, 5)
        found = await stage.explain("deploy/web")
    (waits,) = found.causes
    (ending,) = waits.because
    assert (found.state, waits.code, ending.code, ending.count, ending.what) == (
        State.PROGRESSING,
        "RolloutWaits",
        "Terminating",
        2,
        "the pod ends within its grace period of 30 s",
    )


@pytest.mark.looptime
async def test_the_runs_of_a_cron_job_that_a_quota_refuses_are_told() -> None:
    """The jobs are in the answer of the cron job, which is as stuck as they are."""
    async with staged() as stage:
        await stage.play(quota(1), deployment(), cron_job(), 85)
        found = await stage.explain_all()
    assert [(str(each.object), root_of(each).code) for each in found] == [
        ("Deployment shop/web", "QuotaFull"),
        ("CronJob shop/report", "QuotaFull"),
        ("ResourceQuota shop/small", "QuotaFull"),
    ]
