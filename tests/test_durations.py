"""The durations of tests are added up over the files."""

from typing import Any

import pytest

from tests.durations import PROPERTY, DurationRecorder


def report(path: str, when: Any, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(
        f"{path}::test",
        (path, 1, "test"),
        {},
        "passed",
        None,
        when,
        user_properties=[(PROPERTY, seconds)],
    )


def test_the_cost_of_a_file_is_the_sum_of_its_tests() -> None:
    recorder = DurationRecorder()
    for path, when, seconds in (
        ("tests/a.py", "call", 7.0),
        ("tests/a.py", "teardown", 1.5),
        ("tests/a.py", "teardown", 2.0),
        ("tests/b.py", "teardown", 0.25),
    ):
        recorder.pytest_runtest_logreport(report(path, when, seconds))
    assert recorder.files == {"tests/a.py": 3.5, "tests/b.py": 0.25}
