"""Custom resource definitions: their status, and the kinds that they make."""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.kind import (
    ALL_VERBS,
    SCALE,
    Catalogue,
    Kind,
    ScalePaths,
    Subresource,
    status_of,
)
from controller_manager.devcluster.apiserver.objects import (
    CUSTOM_RESOURCES,
    Objects,
    RESTStorage,
)
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.registry.apiregistration import sync_custom_services
from controller_manager.devcluster.registry.kinds import kind_of, true_conditions
from controller_manager.devcluster.storage import Storage

from . import definition_validation
from .conversion import ConversionWebhook, Versions, WebhookConverter
from .custom_resources import CustomResourceStrategy, Origin, Served

# The status of a definition: its accepted names, and its conditions.


class Taken(Struct):
    """The names of all definitions of a group except one."""

    resources: set[str]
    kinds: set[str]

    def of(self, name: str) -> set[str]:
        """Return the taken names among which a name must be unique."""
        return self.kinds if name in ("kind", "listKind") else self.resources


def taken_names(definition: JSON, others: Iterable[JSON]) -> Taken:
    """Return the names that other definitions of the same group have."""
    taken = Taken(set(), set())
    for other in others:
        if other["metadata"]["uid"] == definition["metadata"]["uid"]:
            continue
        if other["spec"]["group"] != definition["spec"]["group"]:
            continue
        names = other.get("status", {}).get("acceptedNames", {})
        taken.resources |= {names.get("plural", ""), names.get("singular", "")}
        taken.resources |= {*names.get("shortNames", ())}
        taken.kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return taken


def is_settled(definition: JSON) -> bool:
    """Tell whether the status of a definition is final.

    Accepted names stay accepted, also if other definitions ask for the same names.
    """
    metadata, status = definition["metadata"], definition.get("status", {})
    return (
        "deletionTimestamp" not in metadata
        and status.get("acceptedNames") == definition["spec"]["names"]
        and true_conditions(definition) >= {"NamesAccepted", "Established"}
        and definition_validation.approval_condition(definition) is None
    )


def new_status(definition: JSON, taken: Taken, now: str) -> JSON:
    """Return the status of a definition; other definitions have the `taken` names.

    `now` is the time of conditions that change.
    """
    wanted, status = definition["spec"]["names"], definition.get("status", {})
    accepted = dict(status.get("acceptedNames", {}))
    conflict: tuple[str, str] | None = None
    for name, reason in (
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ):
        before = accepted.get(name)
        problems = _conflicts(wanted.get(name), before, taken.of(name))
        if problems:
            conflict = reason, problems
        elif name in wanted:
            accepted[name] = wanted[name]
        else:
            accepted.pop(name, None)
    accepted.pop("categories", None)
    if "categories" in wanted:
        accepted["categories"] = wanted["categories"]
    conditions = list(status.get("conditions") or ())
    for condition in _conditions(definition, conflict):
        conditions = _with_condition(conditions, condition, now)
    return {**status, "conditions": conditions, "acceptedNames": accepted}


def _conflicts(wanted: Any, accepted: Any, taken: set[str]) -> str:
    """Return why a name, or short names, cannot be accepted; empty if they can."""
    if wanted == accepted:
        return ""
    if not isinstance(wanted, list):
        return f'"{wanted}" is already in use' if wanted in taken else ""
    known = accepted or ()
    texts = [
        f'"{each}" is already in use'
        for each in wanted
        if each not in known and each in taken
    ]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


def _conditions(definition: JSON, conflict: tuple[str, str] | None) -> Iterable[JSON]:
    is_established = "Established" in true_conditions(definition)
    if conflict is None:
        yield _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
        if not is_established:
            yield _established(definition)
    else:
        yield _condition("NamesAccepted", "False", *conflict)
        if not is_established:
            message = "not all names are accepted"
            yield _condition("Established", "False", "NotAccepted", message)
    if "deletionTimestamp" in definition["metadata"]:
        message = "CustomResource deletion is in progress"
        reason = "InstanceDeletionInProgress"
        yield _condition("Terminating", "True", reason, message)
    if (approval := definition_validation.approval_condition(definition)) is not None:
        yield _condition("KubernetesAPIApprovalPolicyConformant", *approval)


def _established(definition: JSON) -> JSON:
    if not definition_validation.has_valid_bundle(definition):
        why = "The conversion webhook CABundle is invalid"
        return _condition("Established", "False", "InvalidCABundle", why)
    why = "the initial names have been accepted"
    return _condition("Established", "True", "InitialNamesAccepted", why)


def _condition(type_: str, status: str, reason: str, message: str) -> JSON:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def _with_condition(conditions: list[JSON], new: JSON, now: str) -> list[JSON]:
    """Return the conditions with a new one; its time changes with its status."""
    for number, old in enumerate(conditions):
        if old["type"] == new["type"]:
            time = now
            if old["status"] == new["status"] and "lastTransitionTime" in old:
                time = old["lastTransitionTime"]
            changed = {**old, **new, "lastTransitionTime": time}
            return [*conditions[:number], changed, *conditions[number + 1 :]]
    type_, status = new["type"], new["status"]
    first = {"type": type_, "status": status, "lastTransitionTime": now}
    return [*conditions, {**first, **new}]


# The kinds that a definition adds to the API.


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


# Adds the kinds of definitions to the catalogue, and removes them again.

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


def sync_definitions(objects: Objects, catalogue: Catalogue) -> None:
    """Make the catalogue match the stored definitions.

    It writes their statuses, and deletes the objects of definitions being deleted.
    """
    kind = catalogue.of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    if kind is None:
        return  # this server has no kind CustomResourceDefinition
    for definition in _definitions(objects):
        if "deletionTimestamp" in definition["metadata"]:
            _finish(objects, kind, _with_status(objects, kind, definition))
    # If a definition gives a name up, another one may wait for this name.
    for definition in _definitions(objects):
        _with_status(objects, kind, definition)
    _serve(objects, catalogue)
    sync_custom_services(objects, catalogue)


def _definitions(objects: Objects) -> list[JSON]:
    return [each.obj for each in objects.storage.collection(DEFINITIONS)]


def _with_status(objects: Objects, kind: Kind, definition: JSON) -> JSON:
    """Write the status that a definition should have; return the definition."""
    if is_settled(definition):
        return definition
    now = format_time(objects.clock.now())
    taken = taken_names(definition, _definitions(objects))
    status = new_status(definition, taken, now)
    if status == definition.get("status"):
        return definition
    name, changed = definition["metadata"]["name"], {**definition, "status": status}
    return objects.update(kind, "", name, changed, "status").obj


def _finish(objects: Objects, kind: Kind, definition: JSON) -> None:
    """Delete all objects of a definition; after the last, remove its finalizer."""
    collection = objects.storage.collection(definition["metadata"]["name"])
    custom = stored_kind_of(definition, objects.storage.version)
    for stored in collection:
        metadata = stored.obj["metadata"]
        if "deletionTimestamp" not in metadata:
            namespace = metadata.get("namespace", "")
            objects.delete(custom, namespace, metadata["name"], Deletion())
    if len(collection):
        return
    metadata = dict(definition["metadata"])
    left = [each for each in metadata.get("finalizers", []) if each != CLEANUP]
    if left == metadata.get("finalizers", []):
        return
    metadata["finalizers"] = left
    objects.update(kind, "", metadata["name"], {**definition, "metadata": metadata})


def _serve(objects: Objects, catalogue: Catalogue) -> None:
    """Serve the kinds of established definitions; kinds already served stay."""
    wanted = {
        origin_of(each): each
        for each in _definitions(objects)
        if "Established" in true_conditions(each)
    }
    served: set[Origin] = set()
    for kind in catalogue.all():
        if not isinstance(kind.strategy, CustomResourceStrategy):
            continue
        if kind.strategy.origin in wanted:
            served.add(kind.strategy.origin)
        else:
            catalogue.remove(kind)
    new = [
        kind
        for origin, definition in wanted.items()
        if origin not in served
        for kind in kinds_of(definition, objects)
    ]
    for kind in sorted(new, key=lambda each: each.api_version):
        # A built-in kind has priority over a custom kind of the same name.
        if catalogue.find(kind.group, kind.version, kind.plural) is None:
            catalogue.add(kind)


def finish_definition(kind: Kind, objects: Objects, catalogue: Catalogue) -> None:
    """Remove the definition of a kind if it is being deleted, after its last object."""
    strategy = kind.strategy
    if isinstance(strategy, CustomResourceStrategy) and strategy.origin.is_going:
        sync_definitions(objects, catalogue)


REST_STORAGE: Final = RESTStorage(CUSTOM_RESOURCES, after_request=finish_definition)


# CustomResourceDefinition: adds a kind to the API.


def _default_definition(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    conversion = spec.setdefault("conversion", {})
    conversion.setdefault("strategy", "None")
    client = (conversion.get("webhook") or {}).get("clientConfig") or {}
    if service := client.get("service"):
        service.setdefault("port", 443)


def _hold_deletion(obj: JSON, _: Storage) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if CLEANUP not in finalizers:
        finalizers.append(CLEANUP)
    obj["status"] = {"storedVersions": _storage_versions(obj)}


def _add_stored_version(_: JSON, new: JSON) -> None:
    status = new.get("status", {})
    stored = status.get("storedVersions") or []
    more = [each for each in _storage_versions(new) if each not in stored]
    if more:
        new["status"] = {**status, "storedVersions": [*stored, *more]}


def _storage_versions(definition: JSON) -> list[str]:
    versions = definition.get("spec", {}).get("versions") or []
    return [
        each.get("name", "")
        for each in versions
        if isinstance(each, dict) and each.get("storage")
    ]


KIND: Final = kind_of(
    "apiextensions.k8s.io/v1/customresourcedefinitions",
    apply_defaults=_default_definition,
    prepare_for_create=_hold_deletion,
    prepare_for_update=_add_stored_version,
    counts_generations=True,
    rules=definition_validation.RULES,
    new_rules=definition_validation.NEW_RULES,
    update_rules=definition_validation.UPDATE_RULES,
)


def serve_definitions(_: Kind, objects: Objects, catalogue: Catalogue) -> None:
    """Serve the kinds that are defined now."""
    sync_definitions(objects, catalogue)


DEFINITION_STORAGE: Final = RESTStorage(KIND.resource, after_request=serve_definitions)
