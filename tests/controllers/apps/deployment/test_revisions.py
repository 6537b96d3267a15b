"""Revisions, their annotations, and the limit of their number."""

import msgspec
import pytest

from controller_manager.controllers.apps.deployment.revisions import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    beyond_history_limit,
    rollback_target,
    synced_annotations,
)
from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.scaling import (
    desired_annotation,
    max_annotation,
)
from tests.controllers.builders import deployment, replica_set


def annotated(**annotations: str) -> Rollout:
    subject = deployment()
    metadata = msgspec.structs.replace(subject.metadata, annotations=annotations)
    return Rollout(msgspec.structs.replace(subject, metadata=metadata), None, ())


def test_all_annotations_but_the_controllers_own_are_inherited() -> None:
    """Annotations that the deployment does not have any more stay."""
    parent = annotated(
        **{
            "kubernetes.io/change-cause": "x",
            REVISION: "9",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "deprecated.deployment.rollback.to": "1",
        }
    ).deployment
    assert synced_annotations(parent, {"kept": "y"}, 3) == {
        "kept": "y",
        "kubernetes.io/change-cause": "x",
        REVISION: "3",
    }


def test_an_older_revision_is_added_to_the_history() -> None:
    """The history of a reused replica set grows; a higher revision stays."""
    parent = annotated().deployment
    assert synced_annotations(parent, {REVISION: "1"}, 3) == {
        REVISION: "3",
        REVISION_HISTORY: "1",
    }
    assert synced_annotations(parent, {REVISION: "3", REVISION_HISTORY: "1"}, 5) == {
        REVISION: "5",
        REVISION_HISTORY: "1,3",
    }
    assert synced_annotations(parent, {REVISION: "7"}, 3) == {REVISION: "7"}


def test_the_history_is_cut_from_its_oldest_end() -> None:
    """At 2,000 characters."""
    history = ",".join(str(n) for n in range(100, 600))
    result = synced_annotations(
        annotated().deployment, {REVISION: "600", REVISION_HISTORY: history}, 601
    )
    kept = result[REVISION_HISTORY].split(",")
    assert len(result[REVISION_HISTORY]) <= 2000
    assert (kept[0], kept[-1], len(kept)) == ("101", "600", 500)


def test_the_last_revision_is_the_second_highest() -> None:
    """An undo without a number goes back to it."""
    sets = tuple(replica_set(f"r{n}", 0, revision=n) for n in (1, 4, 3))
    assert rollback_target(Rollout(deployment(), None, sets), 0) is sets[2]
    assert rollback_target(Rollout(deployment(), None, sets[:1]), 0) is None


def test_only_empty_old_replica_sets_beyond_the_limit_go_oldest_first() -> None:
    """Those with pods, or not yet observed, stay."""
    olds = tuple(
        replica_set(f"r{n}", 1 if n == 2 else 0, revision=n) for n in range(1, 6)
    )
    rollout = Rollout(deployment(revisionHistoryLimit=1), None, olds)
    assert [each.metadata.name for each in beyond_history_limit(rollout)] == [
        "r1",
        "r3",
        "r4",
    ]
    everything = Rollout(deployment(revisionHistoryLimit=5), None, olds)
    assert beyond_history_limit(everything) == ()
    assert beyond_history_limit(Rollout(deployment(), None, olds)) == ()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("3", 3),
        ("+3", 3),
        ("003", 3),
        ("\u0663", None),
        ("2147483648", None),
        ("9" * 5000, None),
        ("", None),
        (None, None),
    ],
)
def test_the_size_at_the_last_scaling_is_read_as_upstream_reads_it(
    text: str | None, size: int | None
) -> None:
    """Users can write the annotation; one that is no number is as good as none."""
    annotations = {} if text is None else {DESIRED_REPLICAS: text, MAX_REPLICAS: text}
    scaled = replica_set("rs", 3)
    metadata = msgspec.structs.replace(scaled.metadata, annotations=annotations)
    scaled = msgspec.structs.replace(scaled, metadata=metadata)
    assert (desired_annotation(scaled), max_annotation(scaled)) == (size, size)


@pytest.mark.parametrize(
    ("own", "result"),
    [
        ("", {REVISION: "3"}),
        ("+2", {REVISION: "3", REVISION_HISTORY: "+2"}),
        ("two", {REVISION: "two"}),
        ("\u0662", {REVISION: "\u0662"}),
        ("9" * 5000, {REVISION: "9" * 5000}),
    ],
)
def test_a_revision_that_a_user_wrote_is_read_as_upstream_reads_it(
    own: str, result: dict[str, str]
) -> None:
    """An empty one counts as none, and one that is no number stays as it is."""
    parent = annotated().deployment
    assert synced_annotations(parent, {REVISION: own}, 3) == result
