"""Sets of completion indexes have upstream's format, and take linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.controllers.batch.job.indexes import (
    IndexSet,
    completion_index,
    first_pending,
    indexes_of,
)
from tests.controllers.batch.job.pods import job_pod

INDEXES = st.sets(st.integers(0, 40))


@pytest.mark.parametrize(
    ("text", "completions", "intervals"),
    [
        ("", 10, ()),
        ("0", 10, ((0, 0),)),
        ("1,3-5,7", 10, ((1, 1), (3, 5), (7, 7))),
        ("0,1", 10, ((0, 1),)),
        ("0-2,3-4", 10, ((0, 4),)),
        ("0-9", 5, ((0, 4),)),
        ("0,5", 5, ((0, 0),)),
        ("7-9", 5, ()),
        ("1,x,3", 10, ((1, 1), (3, 3))),
        ("1-x,3", 10, ((3, 3),)),
        ("-1,3", 10, ((3, 3),)),
        (" 1,2_0,٣,4", 10, ((4, 4),)),
        ("5,3", 10, ((3, 3), (5, 5))),
        ("5-3", 10, ()),
        ("0-5,2-3", 10, ((0, 5),)),
        ("1-2-3", 10, ((1, 2),)),
        ("9" * 5000, 10, ()),
        ("3", 0, ()),
    ],
)
def test_a_text_is_parsed_up_to_the_completions(
    text: str, completions: int, intervals: tuple[tuple[int, int], ...]
) -> None:
    """Malformed parts are left out, the others count."""
    assert IndexSet.parse(text, completions) == IndexSet(intervals)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1], "0,1"),
        ([2, 0, 1], "0-2"),
        ([7, 1, 3, 4, 5, 5], "1,3-5,7"),
        ([0, 1, 3, 4], "0,1,3,4"),
    ],
)
def test_indexes_are_formatted_as_upstream_formats_them(
    indexes: list[int], text: str
) -> None:
    """Two neighbours have a comma between them, three and more a dash."""
    assert IndexSet.of(indexes).format() == text


@given(INDEXES)
def test_a_set_survives_its_text(indexes: set[int]) -> None:
    """So a status that is written and read again is the same."""
    found = IndexSet.of(indexes)
    assert IndexSet.parse(found.format(), 41) == found
    assert list(found) == sorted(indexes)
    assert len(found) == len(indexes)
    assert {index for index in range(-1, 43) if index in found} == indexes


@given(INDEXES, INDEXES)
def test_sets_are_combined_as_pythons_are(one: set[int], other: set[int]) -> None:
    """Neighbouring intervals become one, so equal sets are equal values."""
    first, second = IndexSet.of(one), IndexSet.of(other)
    assert first.union(second) == IndexSet.of(one | other)
    assert first.overlap(second) == len(one & other)


@given(st.text(st.sampled_from("0123456789,-x ")), st.integers(0, 50))
def test_any_text_gives_ordered_intervals_with_gaps(
    text: str, completions: int
) -> None:
    """Nothing raises, and nothing is out of range."""
    found = IndexSet.parse(text, completions)
    assert found == IndexSet.of(found)
    assert all(0 <= index < completions for index in found)


@given(INDEXES, st.integers(0, 45), st.integers(0, 45))
def test_the_first_pending_indexes_are_the_lowest_that_are_not_taken(
    taken: set[int], count: int, completions: int
) -> None:
    """The result is shorter if fewer indexes are missing."""
    missing = [index for index in range(completions) if index not in taken]
    assert first_pending(IndexSet.of(taken), count, completions) == missing[:count]


def test_pending_indexes_of_a_huge_job_take_no_time_for_the_others() -> None:
    """The job has the largest number of completions, and one taken interval."""
    end = 2**31 - 1
    taken = IndexSet(((1, end - 3),))
    assert len(taken) == end - 3
    assert first_pending(taken, 5, end) == [0, end - 2, end - 1]
    assert first_pending(IndexSet(), 2, end) == [0, 1]


def test_an_index_set_has_only_integers() -> None:
    """Another value is not in it."""
    assert "1" not in IndexSet.of([1])


@pytest.mark.parametrize(
    ("annotation", "index"),
    [
        ("0", 0),
        ("12", 12),
        ("+3", 3),
        ("007", 7),
        ("-1", None),
        ("", None),
        (" 1", None),
        ("1.0", None),
        ("٣", None),
        (None, None),
    ],
)
def test_the_index_of_a_pod_is_read_as_go_reads_it(
    annotation: str | None, index: int | None
) -> None:
    """A pod without the annotation, or with another text, has no index."""
    assert completion_index(job_pod(index=annotation)) == index


def test_pods_without_an_index_are_left_out() -> None:
    """Two pods of one index are one index."""
    pods = [job_pod(index=index) for index in (4, None, "x", 3, 4, 9)]
    assert indexes_of(pods) == IndexSet(((3, 4), (9, 9)))
