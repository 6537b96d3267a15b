"""Conversion of the objects of a custom resource from one version to another.

Each object passes the hub, the version in which objects are stored. An API server fills
in no defaults after a conversion, so this does.
"""

from functools import cache
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON, Decoder
from controller_manager.api.meta import AnyResource, CompleteObject, ObjectMeta

from .definition import Definition, Spoke
from .schema import schema_of, with_defaults

_NO_METADATA: Final = ObjectMeta()
_CHANGEABLE: Final = ("annotations", "labels")
"""The metadata that a conversion may change; an API server restores all other."""


class ConversionError(ValueError):
    """An object cannot be converted; the message names it and says why."""


def converted(definition: Definition[Any], obj: JSON, api_version: str) -> JSON:
    """Return an object in another version; its metadata stays unless a function has it.

    Raises ConversionError, whose cause is the exception of a function.
    """
    metadata, given = obj.get("metadata") or {}, obj.get("apiVersion")
    versions = {each.api_version: each for each in definition.resources()}
    try:
        for name in (given, api_version):
            if name not in versions:
                msg = f"there is no version {name}; there is {', '.join(versions)}"
                raise ValueError(msg)  # noqa: TRY301 - as an error of a function
        found = _converted(definition, obj, api_version)
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        key = "/".join(metadata[k] for k in ("namespace", "name") if metadata.get(k))
        msg = f"{obj.get('kind')} {key}: {given} to {api_version}: {kind}{error}"
        raise ConversionError(msg) from error
    written: JSON = msgspec.json.decode(msgspec.json.encode(found))
    if found.metadata != _NO_METADATA:
        kept = {key: each for key, each in metadata.items() if key not in _CHANGEABLE}
        own = written["metadata"]
        metadata = kept | {key: own[key] for key in _CHANGEABLE if key in own}
    written |= {"apiVersion": api_version, "kind": obj["kind"], "metadata": metadata}
    filled: JSON = with_defaults(written, _schema(versions[api_version]))
    return filled


def _converted(
    definition: Definition[Any], obj: JSON, api_version: str
) -> CompleteObject:
    hub, spokes = definition.resource, {}
    for each in definition.versions:
        if isinstance(each, Spoke):
            spokes[each.resource.api_version] = each
    if (source := spokes.get(obj["apiVersion"])) is None:
        found = _decoded(hub, obj)
    else:
        found = _checked(hub, source.to_hub(_decoded(source.resource, obj)))
    if (target := spokes.get(api_version)) is None:
        return found
    return _checked(target.resource, target.from_hub(found))


def _checked(resource: AnyResource, found: CompleteObject) -> CompleteObject:
    is_right: bool = isinstance(found, resource.type)
    if not is_right:
        wanted, other = resource.type.__name__, type(found).__name__
        msg = f"the function returned a {other}, and no {wanted}"
        raise TypeError(msg)
    return found


def _decoded(resource: AnyResource, obj: JSON) -> CompleteObject:
    return _decoder(resource).decode(msgspec.json.encode(obj))


@cache
def _decoder(resource: AnyResource) -> Decoder[CompleteObject]:
    return Decoder(resource.type)


@cache
def _schema(resource: AnyResource) -> JSON:
    return schema_of(resource.type)
