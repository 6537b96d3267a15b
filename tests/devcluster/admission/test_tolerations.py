"""Tolerations that others cover are removed."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.admission.pods import merged

ALL: JSON = {"operator": "Exists"}
KEY: JSON = {"key": "a", "operator": "Exists"}
EQUAL: JSON = {"key": "a", "operator": "Equal", "value": "1"}
SOON: JSON = KEY | {"effect": "NoExecute", "tolerationSeconds": 5}
LATER: JSON = KEY | {"effect": "NoExecute", "tolerationSeconds": 9}
SCHEDULE: JSON = KEY | {"effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ([EQUAL], [KEY], [KEY]),
        ([KEY], [EQUAL], [KEY]),
        ([KEY], [KEY], [KEY]),
        ([KEY, SOON], [ALL], [ALL]),
        ([SOON], [LATER], [LATER]),
        ([SOON], [SCHEDULE], [SOON, SCHEDULE]),
        ([EQUAL], [EQUAL | {"value": "2"}], [EQUAL, EQUAL | {"value": "2"}]),
        (
            [{"key": "b", "operator": "Exists"}],
            [],
            [{"key": "b", "operator": "Exists"}],
        ),
    ],
)
def test_a_toleration_that_another_one_covers_is_removed(
    first: list[JSON], second: list[JSON], kept: list[JSON]
) -> None:
    assert merged(first, second) == kept


def test_long_lists_are_kept_whole() -> None:
    """To compare each with each other one takes too long."""
    many = [EQUAL | {"value": str(number)} for number in range(100_000)]
    assert merged(many, [KEY]) == [*many, KEY]
