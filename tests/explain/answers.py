"""The answers of ``docs/explain.md``, and those that a cluster gives today.

``python -m tests.explain.answers`` writes the answers of today into the document.
"""

import asyncio
import re
from typing import Any

import looptime

from tests.documents.facts import ROOT
from tests.explain.scenarios import SCENARIOS, Scenario
from tests.explain.stage import staged

PAGE = ROOT / "docs" / "explain.md"
_ANSWER = re.compile(
    r"^### (.+)\n((?:(?!#|```text$).*\n)*)```text\n((?:(?!```$).*\n)*)```$",
    re.MULTILINE,
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_AGE = re.compile(r"TIME \(\w+\)")
_POD = re.compile(r"\b([a-z]+-[a-z0-9]{7,10})-[a-z0-9]{5}\b")
_RUN = re.compile(r"\b([a-z]+)-(?!0000)[bcdf-hj-np-tv-xz2-9]{5}\b")


def answers_of_page() -> dict[str, str]:
    return {name: text for name, _, text in _ANSWER.findall(PAGE.read_text())}


def normalised(answer: str) -> str:
    text = _AGE.sub("TIME", _TIME.sub("TIME", answer))
    return _RUN.sub(r"\1-xxxxx", _POD.sub(r"\1-xxxxx", text))


async def answer_of(scenario: Scenario) -> str:
    async with staged(scenario.without) as stage:
        await stage.play(*scenario.steps)
        command = f"$ controller-manager explain {scenario.target} -n shop\n"
        return command + stage.text(await stage.explain(scenario.target))


def _loop() -> asyncio.AbstractEventLoop:
    """Return a loop with virtual time, as the tests have it."""
    loop: Any = looptime.new_event_loop()
    loop._clock_resolution = 2e-6
    found: asyncio.AbstractEventLoop = loop
    return found


def _write() -> None:
    def replaced(found: re.Match[str]) -> str:
        name, text, old = found.groups()
        with asyncio.Runner(loop_factory=_loop) as runner:
            new = runner.run(answer_of(SCENARIOS[name]))
        kept = old if normalised(new) == normalised(old) else new
        return f"### {name}\n{text}```text\n{kept}```"

    page = _ANSWER.sub(replaced, PAGE.read_text())
    PAGE.write_text(page)


if __name__ == "__main__":
    _write()
