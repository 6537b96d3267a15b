"""The contents of created objects are compared field by field."""

from typing import Any

from controller_manager.preview.contents import unlike
from controller_manager.preview.target import find_target

_TARGET = find_target("/api/v1/namespaces/default/persistentvolumeclaims")


def test_the_status_of_a_created_object_is_not_that_of_its_creator() -> None:
    assert _TARGET is not None
    sent: dict[str, Any] = {
        "metadata": {"name": "data-web-0", "labels": {"app": "web"}},
        "spec": {"volumeMode": "Block"},
        "status": {"phase": "Pending"},
    }
    real = {
        "metadata": {"name": "data-web-0", "labels": {"app": "other"}},
        "spec": {"volumeMode": "Filesystem", "volumeName": "disk"},
        "status": {"phase": "Bound"},
    }
    assert list(unlike(_TARGET.collection, real, sent, 1.0)) == [
        (("metadata", "labels", "app"), "web"),
        (("spec", "volumeMode"), "Block"),
    ]
