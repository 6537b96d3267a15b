"""The flags with which recordings were made are read from ARGS."""

import pytest

from tests.conformance.arguments import arguments
from tests.conformance.recordings import ALL_RECORDINGS


def test_the_flags_of_manager_and_server_are_told_apart() -> None:
    """A line may be for the API server."""
    text = "--a=1 --b=x,y --a=2\napiserver: --feature-gates=One=true,Two=false --c"
    found = arguments(text, "--d=3")
    assert found.manager == {"a": ["1", "2"], "b": ["x,y"], "d": ["3"]}
    assert found.server == {"feature-gates": ["One=true,Two=false"], "c": [""]}
    assert found.server_gates == {"One": True, "Two": False}


@pytest.mark.slow
def test_every_recording_can_be_read() -> None:
    for each in ALL_RECORDINGS.values():
        assert each.config().generic.controllers
        assert each.steps
        assert each.expected()
