"""Definitions of custom resources, for tests."""

from dataclasses import replace
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialObject, Resource
from controller_manager.client.rest.client import Client, PatchType

WIDGETS: Resource[Any] = Resource("example.com", "v1", "widgets", "Widget", dict)


DEFINITIONS: Resource[Any] = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    dict,
    namespaced=False,
)


SCALABLE: JSON = {
    "status": {},
    "scale": {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    },
}
"""Subresources of a custom resource that has a scale."""


ANYTHING: JSON = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""The schema of objects that may have any fields."""


def definition(
    plural: str = "widgets", kind: str = "Widget", subresources: JSON | None = None
) -> JSON:
    """Return a custom resource definition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": ANYTHING},
                    "subresources": subresources or {},
                }
            ],
        },
    }


async def serve_versions(client: Client, *served: str) -> None:
    """Serve the widgets in these of the versions v1 and v2; v1 is stored."""
    versions: list[JSON] = [
        {
            "name": name,
            "served": name in served,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": ANYTHING},
        }
        for name in ("v1", "v2")
    ]
    patch = {"spec": {"versions": versions}}
    await client.patch(
        replace(DEFINITIONS, type=PartialObject),
        "",
        "widgets.example.com",
        patch,
        PatchType.MERGE,
    )
