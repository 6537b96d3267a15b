"""The cost of many intervals in the completed indexes of a job."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.batch.v1 import JOBS
from controller_manager.controllers.batch.job.indexes import (
    IndexSet,
    IndexTexts,
)
from tests.clusters import Cluster
from tests.controllers.batch.job.user import JobUser, job_config
from tests.controllers.user import settle
from tests.steps import Steps

COMPLETIONS = 4000
KEY = "default/job"


def every_second(completions: int) -> str:
    return ",".join(map(str, range(0, completions, 2)))


@contextmanager
def parsed() -> Iterator[list[str]]:
    """Note the long texts that are parsed."""
    found: list[str] = []
    parse = IndexSet.parse

    def note(text: str, completions: int) -> IndexSet:
        if len(text) > COMPLETIONS:
            found.append(text)
        return parse(text, completions)

    with mock.patch.object(IndexSet, "parse", note):
        yield found


@pytest.mark.looptime
async def test_the_completed_indexes_of_a_job_are_parsed_once() -> None:
    """Later syncs know the sets of texts that this process has written."""
    cluster = Cluster()
    user = JobUser(cluster)
    done = range(100, COMPLETIONS, 2)
    status = {
        "completedIndexes": ",".join(map(str, done)),
        "succeeded": len(done),
    }
    async with cluster.manager(job_config()):
        await user.run(completions=COMPLETIONS, parallelism=5, completionMode="Indexed")
        await settle(10)
        with parsed() as texts:
            await user.client.patch(
                JOBS, "default", "j", {"status": status}, subresource="status"
            )
            for pod in await user.pods():
                await settle(10)
                await user.end(pod)
            await settle(10)
    job = await user.job()
    assert job.status.completed_indexes == f"0-4,{status['completedIndexes']}"
    assert job.status.succeeded == len(done) + 5
    assert texts == [status["completedIndexes"]]


def test_a_few_indexes_are_added_in_steps_that_do_not_grow_with_the_set() -> None:
    """Also the size of the union is not counted again."""
    numbers = []
    for completions in (4000, 40_000):
        large = IndexSet.parse(every_second(completions), completions)
        assert len(large) == completions // 2
        few = IndexSet.of([1, 501, 3999])
        with Steps() as steps:
            union = large.union(few)
            size = len(union)
        assert size == completions // 2 + 3
        numbers.append(steps.number)
    assert numbers[1] <= numbers[0] + 60  # a binary search takes a few steps more


some = st.sets(st.integers(0, 300))


@given(many=some, few=st.sets(st.integers(-1, 301), max_size=4))
def test_a_union_has_the_indexes_of_both_sets(many: set[int], few: set[int]) -> None:
    """The sizes of the sets may be very different."""
    large, small = IndexSet.of(many), IndexSet.of(few)
    expected = IndexSet.of(many | few)
    for union in (
        large.union(small),
        small.union(large),
        large._with_few(small.intervals),
    ):
        assert union == expected
        assert len(union) == len(many | few)
        assert union.format() == expected.format()


def test_the_sets_of_four_texts_of_a_job_are_kept_until_the_job_is_gone() -> None:
    """The sets of short texts are not kept."""
    texts = IndexTexts()
    remember = partial(texts.note, KEY, completions=COMPLETIONS, indexes=IndexSet())
    for number in range(6):
        remember(every_second(COMPLETIONS) + str(number))
    remember("1,3")
    assert {key: len(each) for key, each in texts._known.items()} == {KEY: 4}
    texts.forget(KEY)
    assert texts._known == {}
