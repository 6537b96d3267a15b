"""The order of revisions, their numbers, and the revisions to delete."""

from collections.abc import Collection, Iterable, Sequence

from controller_manager.api.apps.v1 import ControllerRevision


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """Return the revisions by number, age and name (SortControllerRevisions)."""

    def rank(each: ControllerRevision) -> tuple[int, str, str]:
        metadata = each.metadata
        # API servers write all times in one form: as texts they sort as in time.
        return each.revision, metadata.creation_timestamp or "", metadata.name

    return sorted(revisions, key=rank)


def next_number(revisions: Sequence[ControllerRevision]) -> int:
    """Return the number of a new revision; `revisions` are in order."""
    return revisions[-1].revision + 1 if revisions else 1


def oldest_unused(
    revisions: Iterable[ControllerRevision], in_use: Collection[str], count: int
) -> list[ControllerRevision]:
    """Return at most `count` revisions to delete, the oldest first.

    `revisions` are in order. Those whose names are `in_use` are left out.
    """
    unused = [each for each in revisions if each.metadata.name not in in_use]
    return unused[: max(count, 0)]
