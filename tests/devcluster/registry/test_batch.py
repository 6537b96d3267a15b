"""Jobs select their pods, refuse most changes, and check their status and indexes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.devcluster.registry.batch_validation import (
    Interval,
    first_common_index,
    parse_indexes,
    total,
)

pytestmark = pytest.mark.looptime


def as_text(indexes: set[int]) -> str:
    """Return indexes as upstream writes them: two in a row as ``1,2`` or ``1-2``."""
    ends = sorted(each for each in indexes if each + 1 not in indexes)
    starts = sorted(each for each in indexes if each - 1 not in indexes)
    pairs = zip(starts, ends, strict=True)
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in pairs
    )


_INDEXES = st.sets(st.integers(0, 30))


@given(_INDEXES)
def test_indexes_are_read_as_they_are_written(indexes: set[int]) -> None:
    intervals = parse_indexes(as_text(indexes), 31)
    assert {each for i in intervals for each in range(i.first, i.last + 1)} == indexes
    assert total(intervals) == len(indexes)
    if indexes:
        with pytest.raises(ValueError, match="too large index"):
            parse_indexes(as_text(indexes), max(indexes))


@given(_INDEXES, _INDEXES)
def test_the_first_common_index_is_in_both(one: set[int], other: set[int]) -> None:
    common = first_common_index(*(parse_indexes(as_text(x), 31) for x in (one, other)))
    assert common == min(one & other, default=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-2-3", 'the fragment "1-2-3" violates the requirement'),
        ("3-1", "non-increasing order, previous: 3, current: 1"),
        ("1,1", "non-increasing order, previous: 1, current: 1"),
        ("1,,2", 'cannot convert string to integer for index: ""'),
        ("1, 2", 'cannot convert string to integer for index: " 2"'),
        ("1-x", 'cannot convert string to integer for index: "x"'),
        ("7-9", 'too large index: "9"'),
    ],
)
def test_malformed_indexes_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_indexes(text, 9)


def test_no_indexes_are_an_empty_text() -> None:
    assert parse_indexes("", 9) == []
    assert parse_indexes("4", 9) == [Interval(4, 4)]
