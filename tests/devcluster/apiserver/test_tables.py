"""The common parts of the tables of all kinds."""

import pytest

from controller_manager.devcluster.apiserver.strategy import human_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"),
        (49 * 3600, "2d1h"),
        (400 * 86400, "400d"),
        (3 * 365 * 86400, "3y"),
    ],
)
def test_an_age_is_shown_as_kubectl_does(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text
