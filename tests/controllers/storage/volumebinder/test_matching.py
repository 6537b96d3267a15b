"""The volume that fits a claim best (index_test.go of upstream)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.controllers.storage.volumebinder.matching import (
    VolumeIndex,
    kind_of_claim,
    kind_of_volume,
)
from tests.controllers.storage.volumebinder.fixtures import (
    BOUND_TO_MINE,
    MINE,
    OF_ANOTHER,
    OF_FORMER,
    claim,
    volume,
)

ONCE, ROX, MANY = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def index_of(*volumes: PersistentVolume) -> VolumeIndex:
    index = VolumeIndex()
    for each in volumes:
        index.put(each.metadata.name, each)
    return index


def best(index: VolumeIndex, wanted: PersistentVolumeClaim, *taken: str) -> str | None:
    found = index.reserved_for(wanted) or index.smallest(wanted, taken.__contains__)
    return None if found is None else found.metadata.name


@pytest.mark.parametrize(
    ("volumes", "wanted", "expected"),
    [
        ([], {}, None),
        ([volume("a", "10Gi"), volume("b", "5Gi"), volume("c", "2Mi")], {}, "b"),
        ([volume("b"), volume("a")], {}, "a"),
        ([volume("a", "1024Mi"), volume("b", "1073741824")], {}, "a"),
        # Few access modes are better than a small size.
        (
            [volume("a", "1Gi", accessModes=[MANY, ONCE]), volume("b", "9Gi")],
            {},
            "b",
        ),
        (
            [volume("a", "9Gi", accessModes=[MANY, ONCE]), volume("b", "1Gi")],
            {"accessModes": [MANY]},
            "a",
        ),
        ([volume("a", accessModes=[ROX])], {}, None),
        ([volume("a", accessModes=[ONCE, ROX])], {"accessModes": [ROX, ONCE]}, "a"),
        # Class, volume mode, attributes and labels.
        ([volume("a", storageClassName="slow")], {}, None),
        ([volume("a", storageClassName="")], {"storageClassName": ""}, "a"),
        ([volume("a", volumeMode="Block")], {}, None),
        ([volume("a", volumeMode=None)], {}, "a"),
        ([volume("a", volumeAttributesClassName="gold")], {}, None),
        (
            [volume("a"), volume("b", volumeAttributesClassName="gold")],
            {"volumeAttributesClassName": "gold"},
            "b",
        ),
        (
            [volume("a", "1Gi"), volume("b", "9Gi", metadata={"labels": {"t": "x"}})],
            {"selector": {"matchLabels": {"t": "x"}}},
            "b",
        ),
        ([volume("a")], {"selector": {"matchLabels": {"t": "x"}}}, None),
        # Volumes that no claim may have now.
        ([volume("a", phase="Released"), volume("b", phase="Pending")], {}, None),
        ([volume("a", metadata=DELETED)], {}, None),
        ([volume("a", claimRef=OF_ANOTHER), volume("b", claimRef=OF_FORMER)], {}, None),
        # Reserved ones: class and labels do not matter, all else does.
        ([volume("a"), volume("b", "50Gi", claimRef=MINE)], {}, "b"),
        ([volume("a", claimRef=MINE, storageClassName="slow")], {}, "a"),
        (
            [volume("a", claimRef=MINE)],
            {"selector": {"matchLabels": {"t": "x"}}},
            "a",
        ),
        ([volume("a", phase="Bound", claimRef=BOUND_TO_MINE)], {}, "a"),
        ([volume("a", "1Mi", claimRef=MINE), volume("b")], {}, "b"),
        ([volume("a", claimRef=MINE, metadata=DELETED)], {}, None),
        ([volume("a", claimRef=MINE, volumeMode="Block")], {}, None),
        ([volume("a", claimRef=MINE, accessModes=[ROX])], {}, None),
        # The one that refers to the uid: its binding had begun.
        (
            [volume("a", claimRef=MINE), volume("b", "9Gi", claimRef=BOUND_TO_MINE)],
            {},
            "b",
        ),
        # Upstream takes "a" here: it has fewer modes.
        ([volume("a"), volume("b", claimRef=MINE, accessModes=[ONCE, ROX])], {}, "b"),
    ],
)
def test_the_best_volume_for_a_claim(
    volumes: list[PersistentVolume], wanted: dict[str, Any], expected: str | None
) -> None:
    """The order in which the volumes were added does not matter."""
    assert best(index_of(*volumes), claim(**wanted)) == expected
    assert best(index_of(*reversed(volumes)), claim(**wanted)) == expected


def test_a_volume_that_another_claim_is_getting_is_not_chosen() -> None:
    """The next volume is chosen."""
    index = index_of(volume("a"), volume("b", "2Gi"))
    assert best(index, claim(), "a") == "b"
    assert best(index, claim(), "a", "b") is None


def test_the_beta_annotation_of_the_class_still_wins() -> None:
    """This is so in claims and in volumes."""
    annotations = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert kind_of_claim(claim(annotations)).storage_class == "old"
    assert kind_of_volume(volume(annotations=annotations)).storage_class == "old"


STATES = st.builds(
    volume,
    st.sampled_from("abc"),
    st.sampled_from(["1Gi", "2Gi", "512Mi"]),
    phase=st.sampled_from(["Available", "Bound"]),
    claimRef=st.sampled_from([None, MINE, BOUND_TO_MINE, OF_ANOTHER]),
    accessModes=st.sampled_from([[ONCE], [ONCE, ROX], [MANY]]),
    storageClassName=st.sampled_from(["fast", "slow"]),
)


@given(st.lists(st.tuples(STATES, st.booleans()), max_size=12))
def test_an_index_shows_the_present_volumes_only(
    changes: list[tuple[PersistentVolume, bool]],
) -> None:
    """Volumes may be added, changed and removed in any order."""
    index, present = VolumeIndex(), dict[str, PersistentVolume]()
    for changed, stays in changes:
        name = changed.metadata.name
        index.put(name, changed if stays else None)
        present.pop(name, None)
        if stays:
            present[name] = changed
    assert best(index, claim()) == best(index_of(*present.values()), claim())
    assert len(index._volumes) == len(present)
    for name in present:
        index.put(name, None)
    assert vars(index) == vars(VolumeIndex())
