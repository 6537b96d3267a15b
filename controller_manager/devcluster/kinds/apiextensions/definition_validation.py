"""The rules for definitions (pkg/apis/apiextensions/validation).

The messages name fields as upstream does, in its internal form: a field with the same
value in all versions stands at the top of the spec.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    service_name_problems,
    subdomain_problems,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    shown,
)
from controller_manager.devcluster.validation.text import table

from .approval import validate_approval
from .conversion_validation import validate_bundle, validate_conversion
from .definition_status import is_established
from .version_validation import (
    validate_agreed_fields,
    validate_own_fields,
    validate_warning,
)

# Names


def _name(name: str, field: str) -> Iterator[Cause]:
    if name and (problems := service_name_problems(name)):
        yield invalid(field, shown(name), ",".join(problems))


def _mixed_name(name: str, field: str) -> Iterator[Cause]:
    if problems := service_name_problems(name.lower()):
        detail = "may have mixed case, but should otherwise match: "
        yield invalid(field, shown(name), detail + ",".join(problems))


def _version_name(name: str, field: str) -> Iterator[Cause]:
    if problems := service_name_problems(name):
        yield invalid(field, shown(name), ",".join(problems))


def _group_name(group: str, field: str) -> Iterator[Cause]:
    if problems := subdomain_problems(group):
        yield invalid(field, shown(group), ",".join(problems))
    elif "." not in group:
        yield invalid(field, shown(group), "should be a domain with at least one dot")


def _is_one_kind(names: JSON, _: JSON) -> bool:
    return bool(names.get("kind")) and names["kind"] == names.get("listKind")


_NAMES: Final = table(
    """
    plural, singular, kind, listKind: required
    plural, singular: name
    kind, listKind: mixed_name
    shortNames[]: name
    categories[]: name
    listKind: invalid if is_one_kind "kind and listKind may not be the same"
    """,
    _name,
    _mixed_name,
    _is_one_kind,
)


def _one_stored(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the names of the versions, and that one of them is stored."""
    versions = spec.get("versions") or []
    names = [each.get("name", "") for each in versions]
    if len({*names}) < len(names):
        detail = "must contain unique version names"
        yield invalid(f"{path}versions", shown(versions), detail)
    if sum(bool(each.get("storage")) for each in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid(f"{path}versions", shown(versions), detail)
    if names:
        yield from _version_name(names[0], f"{path}version")


def _conversion(spec: JSON, _: str, __: JSON) -> list[Cause]:
    return validate_conversion(spec.get("conversion") or {})


DEFINITION: Final = table(
    """
    group: required
    group: group_name
    scope: required
    scope: enum Cluster Namespaced filled
    versions[]:
      schema always:
        openAPIV3Schema: required pointer "schemas are required"
    versions[]:
      name: version_name default empty
      hook warning own_fields
    hook one_stored
    names always:
      include NAMES
    hook agreed_fields conversion
    preserveUnknownFields: invalid if preserveUnknownFields is true
      "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
      "spec.versions[*].schema instead"
    """,
    _group_name,
    _version_name,
    validate_warning,
    validate_own_fields,
    _one_stored,
    validate_agreed_fields,
    _conversion,
    NAMES=_NAMES,
)
"""The rules for the spec of a definition."""


def _stored_versions(definition: JSON, _: str, __: JSON) -> Iterator[Cause]:
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


def _own_name(definition: JSON, _: str, __: JSON) -> Iterator[Cause]:
    spec, name = definition["spec"], definition["metadata"].get("name", "")
    if name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
        why = 'must be spec.names.plural+"."+spec.group'
        yield invalid("metadata.name", shown(name), why)


def _was_established(_: JSON, old: JSON) -> bool:
    return is_established(old)


RULES: Final = table(
    """
    spec:
      include DEFINITION
    hook stored_versions
    """,
    _stored_versions,
    DEFINITION=DEFINITION,
)
NEW_RULES: Final = table("hook approval own_name", validate_approval, _own_name)
UPDATE_RULES: Final = table(
    """
    when was_established:
      spec change:
        scope: immutable
        names change:
          kind: immutable
    spec change:
      group: immutable
      names change:
        plural: immutable
    hook approval
    when was_established:
      hook bundle
    """,
    _was_established,
    validate_approval,
    validate_bundle,
)
