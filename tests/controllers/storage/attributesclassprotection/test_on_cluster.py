"""Deleted classes of attributes stay while they are used, in memory."""

import pytest
from msgspec import Raw

from controller_manager.api.core.claims import (
    PersistentVolumeClaim,
    attributes_classes_of,
)
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.json_objects import JSON
from controller_manager.api.storage.v1 import VOLUME_ATTRIBUTES_CLASSES
from controller_manager.controllers.storage.attributesclassprotection import controller
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.storage.objects import Storage


def config() -> Config:
    return make_config(
        controllers=("volumeattributesclass-protection-controller",),
        use_service_account_credentials=True,
    )


class Classes(Storage):
    def add_class(self, name: str, *finalizers: str) -> None:
        """Create a class; the API server adds the finalizer of protection."""
        fields: JSON = {"driverName": "csi.example.com", "parameters": {"iops": "100"}}
        metadata = {"finalizers": list(finalizers)}
        self.put(VOLUME_ATTRIBUTES_CLASSES, name, metadata=metadata, **fields)

    def delete_class(self) -> None:
        self.remove(VOLUME_ATTRIBUTES_CLASSES, "gold")

    def classes(self) -> dict[str, list[str]]:
        return self.finalizers(VOLUME_ATTRIBUTES_CLASSES)


@pytest.mark.looptime
@scenarios("storage/attributesclassprotection")
async def test_classes_stay_while_they_are_used(scenario: Scenario) -> None:
    await scenario.play(Classes, config)


def claim(spec: bytes = b"{}", status: bytes = b"{}") -> PersistentVolumeClaim:
    return PersistentVolumeClaim(raw_spec=Raw(spec), raw_status=Raw(status))


def volume(spec: bytes) -> PersistentVolume:
    return PersistentVolume(raw_spec=Raw(spec))


WANTED = b'{"volumeAttributesClassName":"a"}'
CHANGING = (
    b'{"currentVolumeAttributesClassName":"b","modifyVolumeStatus":'
    b'{"status":"InProgress","targetVolumeAttributesClassName":"c"}}'
)


@pytest.mark.parametrize(
    ("used", "classes"),
    [
        (claim(), ()),
        (claim(b'{"volumeAttributesClassName":""}'), ()),
        (claim(WANTED), ("a",)),
        (claim(WANTED, b'{"currentVolumeAttributesClassName":"a"}'), ("a",)),
        (claim(status=b'{"currentVolumeAttributesClassName":"b"}'), ("b",)),
        (claim(status=b'{"modifyVolumeStatus":{"status":"Pending"}}'), ()),
        (claim(WANTED, CHANGING), ("a", "b", "c")),
    ],
)
def test_a_claim_uses_the_classes_it_wants_has_and_changes_to(
    used: PersistentVolumeClaim, classes: tuple[str, ...]
) -> None:
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
    same = controller.VOLUMES_BY_CLASS.has_same_values
    assert controller.classes_of_volume(used) == classes
    assert same is not None
    assert same(used, volume(b"{}")) is (not classes)
