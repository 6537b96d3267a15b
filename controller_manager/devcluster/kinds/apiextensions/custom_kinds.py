"""The kinds that a definition adds to the API."""

import base64
import hashlib
from dataclasses import replace

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.rest.kind import (
    ALL_VERBS,
    SCALE,
    Kind,
    ScalePaths,
    Subresource,
    status_of,
)

from .conversion.converter import Versions, WebhookConverter
from .conversion.webhook import ConversionWebhook
from .custom_resource_strategy import CustomResourceStrategy, Origin, Served


def origin_of(definition: JSON) -> Origin:
    """Return the parts of a definition that its kinds need."""
    metadata = definition["metadata"]
    names = definition.get("status", {}).get("acceptedNames", {})
    return Origin(
        metadata["uid"],
        metadata["generation"],
        "deletionTimestamp" in metadata,
        msgspec.json.encode(names).decode(),
    )


def kinds_of(definition: JSON, objects: Objects) -> list[Kind]:
    """Return the kinds of a definition: one for each served version.

    The objects that are stored from now on have these schemas.
    """
    since = objects.storage.version
    kinds = [
        _kind(definition, version, since)
        for version in definition["spec"]["versions"]
        if version.get("served")
    ]
    conversion = definition["spec"].get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return kinds
    versions = _converted_versions(definition, objects, since)
    return [
        replace(kind, converter=WebhookConverter(versions, kind.api_version))
        for kind in kinds
    ]


def _converted_versions(definition: JSON, objects: Objects, since: int) -> Versions:
    """Return all versions of a definition with a webhook, which converts them."""
    spec, origin = definition["spec"], origin_of(definition)
    strategies = {}
    for version in spec["versions"]:
        api_version = f"{spec['group']}/{version['name']}"
        served = Served(origin, version, api_version, since)
        strategies[api_version] = CustomResourceStrategy(served)
    stored = stored_kind_of(definition, since)
    webhook = ConversionWebhook(spec["conversion"], objects.storage, objects.new_uid)
    return Versions(strategies, stored.api_version, stored.list_kind, webhook)


def stored_kind_of(definition: JSON, since: int) -> Kind:
    """Return the kind of the version in which objects are stored, served or not."""
    versions = definition["spec"]["versions"]
    stored = next(each for each in versions if each.get("storage"))
    return _kind(definition, stored, since)


def _kind(definition: JSON, version: JSON, since: int) -> Kind:
    spec, origin = definition["spec"], origin_of(definition)
    names = {**spec["names"], **definition.get("status", {}).get("acceptedNames", {})}
    # Refuse new objects while the definition is deleted, or the deletion never ends.
    verbs = tuple(verb for verb in ALL_VERBS if not origin.is_going or verb != "create")
    api_version = f"{spec['group']}/{version['name']}"
    served = Served(origin, version, api_version, since)
    return Kind(
        spec["group"],
        version["name"],
        names["kind"],
        names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        subresources=_subresources(names["kind"], version),
        scale_paths=_scale_paths(version),
        verbs=verbs,
        strategy=CustomResourceStrategy(served),
        is_custom=True,
        singular_name=names["singular"],
        list_name=names["listKind"],
        deprecation=_deprecation(version, api_version, names["kind"]),
        storage_version_hash=_storage_version_hash(spec),
    )


def _storage_version_hash(spec: JSON) -> str:
    """Return the hash of the version that is stored, empty if it is not served.

    Upstream: StorageVersionHash of k8s.io/apiserver/pkg/endpoints/discovery.
    """
    for version in spec["versions"]:
        if version.get("storage") and version.get("served"):
            stored = f"{spec['group']}/{version['name']}/{spec['names']['kind']}"
            digest = hashlib.sha256(stored.encode()).digest()
            return base64.b64encode(digest[:8]).decode()
    return ""


def _deprecation(version: JSON, api_version: str, kind: str) -> str:
    if not version.get("deprecated"):
        return ""
    return str(
        version.get("deprecationWarning") or f"{api_version} {kind} is deprecated"
    )


def _subresources(kind: str, version: JSON) -> tuple[Subresource, ...]:
    declared = version.get("subresources") or {}
    known = {"status": status_of(kind), "scale": SCALE}
    return tuple(each for name, each in known.items() if name in declared)


def _scale_paths(version: JSON) -> ScalePaths:
    """Return the paths of a definition, written like ``.spec.replicas``."""
    scale = (version.get("subresources") or {}).get("scale") or {}
    paths = (
        tuple(filter(None, scale.get(name, "").split(".")))
        for name in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    )
    return ScalePaths(*paths)
