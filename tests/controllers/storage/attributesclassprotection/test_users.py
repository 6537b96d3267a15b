"""The claims and volumes that use a class of attributes."""

import pytest
from msgspec import Raw

from controller_manager.api.core.claims import (
    PersistentVolumeClaim,
    attributes_classes_of,
)
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.controllers.storage.attributesclassprotection import (
    controller,
)


def claim(spec: bytes = b"{}", status: bytes = b"{}") -> PersistentVolumeClaim:
    """Return a claim."""
    return PersistentVolumeClaim(raw_spec=Raw(spec), raw_status=Raw(status))


def volume(spec: bytes) -> PersistentVolume:
    """Return a volume."""
    return PersistentVolume(raw_spec=Raw(spec))


WANTED = b'{"volumeAttributesClassName":"a"}'


@pytest.mark.parametrize(
    ("used", "classes"),
    [
        (claim(), ()),
        (claim(b'{"volumeAttributesClassName":""}'), ()),
        (claim(WANTED), ("a",)),
        (claim(WANTED, b'{"currentVolumeAttributesClassName":"a"}'), ("a",)),
        (claim(status=b'{"currentVolumeAttributesClassName":"b"}'), ("b",)),
        (claim(status=b'{"modifyVolumeStatus":{"status":"Pending"}}'), ()),
        (
            claim(
                WANTED,
                b'{"currentVolumeAttributesClassName":"b","modifyVolumeStatus":'
                b'{"status":"InProgress","targetVolumeAttributesClassName":"c"}}',
            ),
            ("a", "b", "c"),
        ),
    ],
)
def test_a_claim_uses_the_classes_it_wants_has_and_changes_to(
    used: PersistentVolumeClaim, classes: tuple[str, ...]
) -> None:
    """Each class is returned once."""
    assert attributes_classes_of(used) == classes
    assert controller.CLAIMS_BY_CLASS.has_same_values is not None
    assert controller.CLAIMS_BY_CLASS.has_same_values(used, claim()) is (not classes)


@pytest.mark.parametrize(
    ("used", "classes"),
    [
        (volume(b"{}"), ()),
        (volume(b'{"volumeAttributesClassName":null}'), ()),
        (volume(b'{"volumeAttributesClassName":""}'), ()),
        (volume(WANTED), ("a",)),
    ],
)
def test_a_volume_uses_the_class_that_it_has(
    used: PersistentVolume, classes: tuple[str, ...]
) -> None:
    """It may have no class."""
    assert controller.classes_of_volume(used) == classes
    assert controller.VOLUMES_BY_CLASS.has_same_values is not None
    assert controller.VOLUMES_BY_CLASS.has_same_values(used, volume(b"{}")) is (
        not classes
    )
