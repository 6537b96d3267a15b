"""Troubles on a cluster: the whole answers are those of ``docs/explain.md``."""

import re

import pytest

from controller_manager.explain.answer import root_of
from controller_manager.explain.cause import State
from tests.documents.facts import ROOT
from tests.explain import scenarios
from tests.explain.answers import PAGE, answer_of, answers_of_page, normalised
from tests.explain.stage import staged

SOURCE = ROOT / "controller_manager" / "explain"


def test_the_document_has_an_answer_for_each_trouble_and_for_no_other() -> None:
    assert sorted(answers_of_page()) == sorted(scenarios.SCENARIOS)


def test_the_document_has_each_code_and_no_other() -> None:
    """Programs depend on codes, so each of them is documented."""
    rows = PAGE.read_text().partition("## Codes")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`(\w+)`", rows))
    sources = [each.read_text() for each in SOURCE.glob("*.py")]
    used = {code for text in sources for code in re.findall(r'code="(\w+)"', text)}
    seen = set(re.findall(r"^ *\[([A-Z]\w+)\] ", PAGE.read_text(), re.MULTILINE))
    assert (used | seen) - documented == set()
    strings = {word for text in sources for word in re.findall(r'"(\w+)"', text)}
    assert documented - strings == {"InvalidSchedule", "UnparseableSchedule"}


@pytest.mark.looptime
@pytest.mark.parametrize("name", scenarios.SCENARIOS)
async def test_the_answer_is_that_of_the_document(name: str) -> None:
    answer = await answer_of(scenarios.SCENARIOS[name])
    assert normalised(answer) == normalised(answers_of_page()[name])


@pytest.mark.looptime
async def test_only_objects_that_are_not_healthy_and_have_no_owner_are_explained() -> (
    None
):
    async with staged() as stage:
        await stage.play(
            scenarios.deployment("bad", "x/broken:v1"), scenarios.deployment("good")
        )
        await stage.play(scenarios.service("app: good"), scenarios.claim("gold"), 30)
        found = await stage.explain_all()
    assert [(str(each.object), each.state, each.causes[0].code) for each in found] == [
        ("Deployment shop/bad", State.STUCK, "RolloutWaits"),
        ("PersistentVolumeClaim shop/data", State.STUCK, "StorageClassMissing"),
    ]


@pytest.mark.looptime
async def test_a_recreated_deployment_waits_for_its_old_pods() -> None:
    """They hold the place of the new ones until they have ended."""
    old, new = (
        scenarios.deployment(
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
        await stage.play(
            scenarios.quota(1), scenarios.deployment(), scenarios.cron_job(), 85
        )
        found = await stage.explain_all()
    assert [(str(each.object), root_of(each).code) for each in found] == [
        ("Deployment shop/web", "QuotaFull"),
        ("CronJob shop/report", "QuotaFull"),
        ("ResourceQuota shop/small", "QuotaFull"),
    ]
