"""Storage classes: defaults, validation and the table."""

import json
from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.requests import call

PATH = "/apis/storage.k8s.io/v1/storageclasses"
UNSUPPORTED = "Unsupported value"
SUPPORTED = "supported values"
MODES = '"Immediate", "WaitForFirstConsumer"'
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def storage_class(**fields: Any) -> JSON:
    return {"metadata": {"name": "a"}, "provisioner": "example.com/disks", **fields}


async def post(cluster: Cluster, obj: JSON) -> tuple[int, JSON]:
    answer = await call(cluster, "POST", PATH, msgspec.json.encode(obj))
    return answer.status, json.loads(answer.body)


async def test_a_class_has_a_policy_and_a_mode(cluster: Cluster) -> None:
    """By default Delete and Immediate."""
    _, created = await post(cluster, storage_class())
    del created["metadata"]
    assert created == {
        "kind": "StorageClass",
        "apiVersion": "storage.k8s.io/v1",
        "provisioner": "example.com/disks",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"provisioner": ""}, "provisioner: Required value"),
        (
            {"reclaimPolicy": "Recycle"},
            f'reclaimPolicy: {UNSUPPORTED}: "Recycle": {SUPPORTED}: "Delete", "Retain"',
        ),
        (
            {"volumeBindingMode": "Later"},
            f'volumeBindingMode: {UNSUPPORTED}: "Later": {SUPPORTED}: {MODES}',
        ),
    ],
)
async def test_an_invalid_class_is_refused(
    cluster: Cluster, fields: JSON, message: str
) -> None:
    """With upstream's message."""
    status, refusal = await post(cluster, storage_class(**fields))
    assert status == 422
    prefix = 'StorageClass.storage.k8s.io "a" is invalid: '
    assert refusal["message"] == f"{prefix}{message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"parameters": {"a": "b"}},
            "parameters: Forbidden: updates to parameters are forbidden.",
        ),
        (
            {"provisioner": "x"},
            "provisioner: Forbidden: updates to provisioner are forbidden.",
        ),
        (
            {"reclaimPolicy": "Retain"},
            'reclaimPolicy: Invalid value: "Retain": field is immutable',
        ),
    ],
)
async def test_how_a_class_makes_volumes_does_not_change(
    cluster: Cluster, change: JSON, message: str
) -> None:
    """A new class is needed for that."""
    await post(cluster, storage_class())
    answer = await call(
        cluster,
        "PATCH",
        f"{PATH}/a",
        msgspec.json.encode(change),
        content_type="application/merge-patch+json",
    )
    assert answer.status == 422
    assert json.loads(answer.body)["message"].endswith(f"is invalid: {message}")


async def test_the_table_names_the_default_class(cluster: Cluster) -> None:
    """As kubectl prints it."""
    name = "storageclass.kubernetes.io/is-default-class"
    await post(
        cluster,
        {
            **storage_class(allowVolumeExpansion=True),
            "metadata": {"name": "a", "annotations": {name: "true"}},
        },
    )
    answer = await call(cluster, "GET", PATH, accept=TABLE)
    table = json.loads(answer.body)
    assert [each["name"] for each in table["columnDefinitions"]] == [
        "Name",
        "Provisioner",
        "ReclaimPolicy",
        "VolumeBindingMode",
        "AllowVolumeExpansion",
        "Age",
    ]
    assert table["rows"][0]["cells"][:5] == [
        "a (default)",
        "example.com/disks",
        "Delete",
        "Immediate",
        "true",
    ]
