"""Schemas of custom resources, in the forms of the OpenAPI documents.

Upstream: pkg/controller/openapi of apiextensions-apiserver.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.rest.kind import Kind

_KNOWN_TO_V2: Final = ("description", "format", "required", "type")
_OPEN: Final = (
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
)
"""Extensions of fields whose value the document of version 2 does not describe."""


def custom_name(kind: Kind) -> str:
    """Return the name of a kind's definition: reversed group, version, kind."""
    group = ".".join(reversed(kind.group.split(".")))
    return f"{group}.{kind.version}.{kind.kind}"


def without_v3(schema: JSON) -> JSON:
    """Return the parts of a schema that a document of version 2 can express.

    A field that may be null or has unknown parts gets only its description: clients
    that validate by the document must not refuse objects that the server accepts.
    """
    known: JSON = {name: schema[name] for name in _KNOWN_TO_V2 if name in schema}
    known |= {name: each for name, each in schema.items() if name.startswith("x-")}
    if schema.get("nullable"):
        known.pop("type", None)
        return known
    if any(schema.get(name) for name in _OPEN):
        known.pop("type", None)
        known.pop("required", None)
        return known
    if isinstance(items := schema.get("items"), dict):
        known["items"] = without_v3(items)
    if properties := schema.get("properties"):
        known["properties"] = {
            name: without_v3(each) for name, each in properties.items()
        }
    if isinstance(others := schema.get("additionalProperties"), dict):
        known["additionalProperties"] = without_v3(others)
    return known
