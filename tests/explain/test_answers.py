"""Each trouble is brought about on a cluster, and the whole answer is compared.

The expected answers are those of ``docs/explain.md``.
"""

import pytest

from tests.explain.answers import answer_of, answers_of_page, normalised
from tests.explain.scenarios import SCENARIOS


def test_the_document_has_an_answer_for_each_trouble_and_for_no_other() -> None:
    assert sorted(answers_of_page()) == sorted(SCENARIOS)


@pytest.mark.sampled
@pytest.mark.looptime
@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_answer_is_that_of_the_document(name: str) -> None:
    answer = await answer_of(SCENARIOS[name])
    assert normalised(answer) == normalised(answers_of_page()[name])
