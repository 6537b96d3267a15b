"""Each trouble is brought about on a cluster, and the whole answer is compared.

The expected answers are those of ``docs/explain.md``.
"""

import re

import pytest

from tests.documents.facts import ROOT
from tests.explain.answers import PAGE, answer_of, answers_of_page, normalised
from tests.explain.scenarios import SCENARIOS

SOURCE = ROOT / "controller_manager" / "explain"


def test_the_document_has_an_answer_for_each_trouble_and_for_no_other() -> None:
    assert sorted(answers_of_page()) == sorted(SCENARIOS)


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
@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_answer_is_that_of_the_document(name: str) -> None:
    answer = await answer_of(SCENARIOS[name])
    assert normalised(answer) == normalised(answers_of_page()[name])
