"""Validation of definitions (pkg/apis/apiextensions/validation).

The messages name fields as upstream does, in its internal form: a field with the same
value in all versions stands at the top of the spec.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    service_name_problems,
    subdomain_problems,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)

from .conversion_validation import validate_conversion
from .version_validation import (
    validate_columns,
    validate_selectable_fields,
    validate_subresources,
    validate_versioned_schema,
)

_WARNING: Final = 256
_SHARED: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""The fields of versions, and their names at the top of upstream's internal form."""


def validate_definition_spec(spec: JSON) -> Iterator[Cause]:
    """Yield the errors in the spec of a definition."""
    yield from _validate_group(spec.get("group", ""))
    scope = spec.get("scope", "")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        supported = ("Cluster", "Namespaced")
        yield not_supported("spec.scope", shown(scope), supported)
    versions = spec.get("versions") or []
    for number, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            field = f"spec.versions[{number}].schema.openAPIV3Schema"
            yield required(field, "schemas are required")
    shared = _shared_fields(versions)
    for number, version in enumerate(versions):
        yield from _validate_version(version, shared, f"spec.versions[{number}]")
    yield from _validate_versions(versions)
    yield from validate_names(spec.get("names") or {}, "spec.names")
    if versions:
        names = {name: _SHARED[name] for name in shared}
        has_status = any(map(_has_status, versions))
        yield from _validate_fields(versions[0], "spec", names, has_status=has_status)
    yield from validate_conversion(spec.get("conversion") or {})
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield invalid("spec.preserveUnknownFields", "true", detail)


def _validate_group(group: str) -> Iterator[Cause]:
    if not group:
        yield required("spec.group")
    elif problems := subdomain_problems(group):
        yield invalid("spec.group", shown(group), ",".join(problems))
    elif "." not in group:
        detail = "should be a domain with at least one dot"
        yield invalid("spec.group", shown(group), detail)


# Versions


def _shared_fields(versions: list[JSON]) -> list[str]:
    """Return the fields that are the same in all versions."""
    return [
        name
        for name in _SHARED
        if versions
        and all(each.get(name) == versions[0].get(name) for each in versions)
    ]


def _validate_version(version: JSON, shared: list[str], path: str) -> Iterator[Cause]:
    name = version.get("name", "")
    if problems := service_name_problems(name):
        yield invalid(f"{path}.name", shown(name), ",".join(problems))
    warning = version.get("deprecationWarning")
    for problem in _warning_problems(warning, is_deprecated=version.get("deprecated")):
        yield invalid(f"{path}.deprecationWarning", shown(warning), problem)
    names = {each: each for each in _SHARED if each not in shared}
    has_status = _has_status(version)
    yield from _validate_fields(version, path, names, has_status=has_status)


def _validate_fields(
    version: JSON, path: str, names: Mapping[str, str], *, has_status: bool
) -> Iterator[Cause]:
    """Check the fields of a version that stand below a path, under these names."""
    schema = version.get("schema") or {}
    if schema and "schema" in names:
        where = f"{path}.{names['schema']}"
        yield from validate_versioned_schema(schema, where, has_status=has_status)
    checks: tuple[tuple[str, Callable[[Any, str], Iterator[Cause]]], ...] = (
        ("subresources", validate_subresources),
        ("additionalPrinterColumns", validate_columns),
        (
            "selectableFields",
            partial(validate_selectable_fields, schema.get("openAPIV3Schema") or {}),
        ),
    )
    for name, check in checks:
        if name in names and version.get(name):
            yield from check(version[name], f"{path}.{name}")


def _has_status(version: JSON) -> bool:
    return "status" in (version.get("subresources") or {})


def _warning_problems(warning: str | None, *, is_deprecated: Any) -> Iterator[str]:
    if warning is None:
        return
    if not is_deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(warning) > _WARNING:
        yield f"must be <= {_WARNING} characters long"
    if not warning:
        yield "must not be an empty string"
    for number, each in enumerate(warning):
        if not each.isprintable():
            yield (
                "must only contain printable UTF-8 characters; non-printable "
                f"character found at index {number}"
            )
            return


def _validate_versions(versions: list[JSON]) -> Iterator[Cause]:
    names = [each.get("name", "") for each in versions]
    if len({*names}) < len(names):
        detail = "must contain unique version names"
        yield invalid("spec.versions", shown(versions), detail)
    if sum(bool(each.get("storage")) for each in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", shown(versions), detail)
    if names and (problems := service_name_problems(names[0])):
        yield invalid("spec.version", shown(names[0]), ",".join(problems))


# Names


def validate_names(names: JSON, path: str) -> Iterator[Cause]:
    """Yield the errors in the names of a definition."""
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            yield required(f"{path}.{name}")
    for name in ("plural", "singular"):
        yield from _validate_name(names.get(name), f"{path}.{name}")
    for name in ("kind", "listKind"):
        value = names.get(name, "")
        problems = service_name_problems(value.lower()) if value else []
        if problems:
            detail = "may have mixed case, but should otherwise match: "
            yield invalid(f"{path}.{name}", shown(value), detail + ",".join(problems))
    for name in ("shortNames", "categories"):
        for number, value in enumerate(names.get(name) or ()):
            yield from _validate_name(value, f"{path}.{name}[{number}]")
    if names.get("kind") and names["kind"] == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        yield invalid(f"{path}.listKind", shown(names["listKind"]), detail)


def _validate_name(value: str | None, field: str) -> Iterator[Cause]:
    if value and (problems := service_name_problems(value)):
        yield invalid(field, shown(value), ",".join(problems))


# Updates


def validate_definition_update(
    old: JSON, new: JSON, *, is_served: bool
) -> Iterator[Cause]:
    """Yield errors for immutable fields; `is_served`: the old one is established."""
    was, now = old["spec"], new["spec"]
    pairs = [
        ("spec.group", was.get("group"), now.get("group")),
        ("spec.names.plural", was["names"].get("plural"), now["names"].get("plural")),
    ]
    if is_served:
        kind = ("spec.names.kind", was["names"].get("kind"), now["names"].get("kind"))
        pairs = [("spec.scope", was.get("scope"), now.get("scope")), kind, *pairs]
    for field, before, after in pairs:
        if before != after:
            yield invalid(field, shown(after), "field is immutable")


def validate_stored_versions(definition: JSON) -> Iterator[Cause]:
    """Yield an error for each stored version that the definition has removed."""
    field = "status.storedVersions"
    stored = definition.get("status", {}).get("storedVersions") or []
    versions = definition["spec"].get("versions") or []
    if not stored:
        yield invalid(field, "[]", "must have at least one stored version")
        return
    for version in versions:
        name = version.get("name", "")
        if version.get("storage") and name not in stored:
            yield invalid(field, shown(stored), f"must have the storage version {name}")
    names = [each.get("name") for each in versions]
    for number, name in enumerate(stored):
        if name not in names:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, "
                "and must remain in spec.versions until a storage migration ensures no "
                f"data remains persisted in {name} and removes {name} from "
                "status.storedVersions"
            )
            yield invalid(f"{field}[{number}]", shown(name), detail)
