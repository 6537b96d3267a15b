"""The rules for definitions: approval, conversion, versions, names (apiextensions)."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry import admission_webhooks
from controller_manager.devcluster.registry.kinds import true_conditions
from controller_manager.devcluster.scheme.names import (
    service_name_problems,
    subdomain_problems,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    required,
    shown,
    too_many,
)
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.webhook import NO_AUTHORITY, authority_of

from .schemas.definition import validate_schema, validate_structure
from .schemas.keywords import properties_of
from .schemas.objects import validate_defaults
from .schemas.rules import validate_costs

# Approval of definitions in groups of the Kubernetes project (pkg/apihelpers).

ANNOTATION: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def approval_condition(definition: JSON) -> tuple[str, str, str] | None:
    """Return status, reason and message of the condition, `None` for other groups."""
    if not _is_protected(definition):
        return None
    value = _annotation(definition)
    if value.startswith("unapproved"):
        return "False", "UnapprovedAnnotation", f'not approved: "{value}"'
    return "True", "ApprovedAnnotation", f"approved in {value}"


def _approval(definition: JSON, _: str, old: JSON) -> list[Cause]:
    """Check that a definition in a protected group says whether it is approved.

    An update may keep the annotation of the `old` definition, which is else empty.
    """
    value = _annotation(definition)
    if not _is_protected(definition) or _is_approved(value):
        return []
    if old and _annotation(old) == value:
        return []
    field, needs = f"metadata.annotations[{ANNOTATION}]", "protected groups must have"
    if not value:
        return [required(field, f'{needs} approval annotation "{ANNOTATION}", {_SEE}')]
    detail = (
        f'{needs} approval annotation "{ANNOTATION}" with either a URL or a reason '
        f'starting with "unapproved", {_SEE}'
    )
    return [invalid(field, shown(value), detail)]


def _annotation(definition: JSON) -> str:
    annotations: JSON = definition["metadata"].get("annotations", {})
    return str(annotations.get(ANNOTATION, ""))


def _is_protected(definition: JSON) -> bool:
    group = definition["spec"].get("group", "")
    return any(group == each or group.endswith(f".{each}") for each in _PROTECTED)


def _is_approved(value: str) -> bool:
    if value.startswith("unapproved"):
        return True
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


# Validation of the field ``conversion`` in the spec of a definition.

_CLIENT: Final = "spec.conversion.webhookClientConfig"
_CLIENT_RULES: Final = admission_webhooks.CLIENT
_review_versions: Final = admission_webhooks.review_versions
_INTERNAL: Final = table("""
    strategy: enum None Webhook default empty
    when strategy is Webhook:
      webhookClientConfig: required pointer "required when strategy is set to Webhook"
      webhookClientConfig:
        include CLIENT_RULES
      conversionReviewVersions: required review_versions
    else:
      webhookClientConfig: forbidden
        "should not be set when strategy is not set to Webhook"
      conversionReviewVersions: forbidden filled
        "should not be set when strategy is not set to Webhook"
    """)


def validate_conversion(conversion: JSON) -> list[Cause]:
    """Return the errors in a ``conversion``; they name fields of upstream's form."""
    webhook = conversion.get("webhook") or {}
    internal = {"strategy": conversion.get("strategy", "")}
    if (config := webhook.get("clientConfig")) is not None:
        internal["webhookClientConfig"] = config
    if reviews := webhook.get("conversionReviewVersions"):
        internal["conversionReviewVersions"] = reviews
    return _INTERNAL.errors(internal, path="spec.conversion.")


def has_valid_bundle(definition: JSON) -> bool:
    """Tell whether the ``caBundle`` of a definition, if it has one, can be read."""
    return authority_of(_client(definition)) is not None


def _bundle(new: JSON, _: str, old: JSON) -> Iterator[Cause]:
    """Yield the error in a changed ``caBundle`` of a definition that is served.

    One that is not served yet may have a wrong one: it waits for a right one.
    """
    if has_valid_bundle(old) and not has_valid_bundle(new):
        bundle = shown(_client(new)["caBundle"])
        yield invalid(f"{_CLIENT}.caBundle", bundle, NO_AUTHORITY)


def _client(definition: JSON) -> JSON:
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    config: JSON = webhook.get("clientConfig") or {}
    return config


# Columns and subresources


_LONGEST: Final = 256
"""The length of a warning about a deprecated version."""

_MOST_FIELDS: Final = 8


def _schema_at(schema: JSON, path: str) -> JSON | None:
    if not path.startswith("."):
        return None
    found: JSON | None = schema
    for name in path[1:].split("."):
        found = properties_of(found).get(name) if found is not None else None
    return found


def _selectable(version: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that the fields are scalars of the schema."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    seen: set[str] = set()
    for number, each in enumerate(version.get("selectableFields") or ()):
        where = f"{path}selectableFields[{number}].jsonPath"
        text = each.get("jsonPath", "")
        if not text:
            yield required(where)
            continue
        found = _schema_at(schema, text)
        if found is None:
            detail = "is an invalid path: does not refer to a valid field"
            yield invalid(where, shown(text), detail)
            continue
        if text.startswith(".metadata"):
            detail = "must not point to fields in metadata"
            yield invalid(where, shown(text), detail)
        if found.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum "
                "string fields and strings with formats are allowed."
            )
            yield invalid(where, shown(text), detail)
        if text in seen:
            yield duplicate(where, shown(text))
        seen.add(text)
    if len(seen) > _MOST_FIELDS:
        yield too_many(f"{path}selectableFields", len(seen), _MOST_FIELDS)


_FIELDS: Final = {
    "subresources": table("""
        subresources:
          scale:
            specReplicasPath: required matches "[.].*"
              "must be a simple json path starting with ."
            specReplicasPath: matches "[^.].*|[.]spec[.].*"
              "should be a json path under .spec"
            statusReplicasPath: required matches "[.].*"
              "must be a simple json path starting with ."
            statusReplicasPath: matches "[^.].*|[.]status[.].*"
              "should be a json path under .status"
            labelSelectorPath: matches "[.].*"
              "must be a simple json path starting with ."
            labelSelectorPath: matches "[^.].*|[.](spec|status)[.].*"
              "should be a json path under either .spec or .status"
        """),
    "additionalPrinterColumns": table("""
        additionalPrinterColumns[]:
          name: required
          type: required "must be one of boolean,date,integer,number,string"
          type: matches "boolean|date|integer|number|string"
            "must be one of boolean,date,integer,number,string"
          format: matches "byte|date|date-time|double|float|int32|int64|password"
            "must be one of byte,date,date-time,double,float,int32,int64,password"
          jsonPath: required at JSONPath
          jsonPath: matches "[.].*" at JSONPath
            "must be a simple json path starting with ."
        """),
    "selectableFields": table("hook selectable"),
}
"""The rules for fields that stand at the top of upstream's form if versions agree."""

# Schemas

_AT_ROOT: Final = (
    *("description", "type", "format", "title", "maximum", "exclusiveMaximum"),
    *("minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems"),
    *("minItems", "uniqueItems", "multipleOf", "required", "items", "properties"),
    *("externalDocs", "example", "x-kubernetes-preserve-unknown-fields"),
    "x-kubernetes-validations",
)
"""The fields at the root of a schema that are allowed with a status subresource."""


def _in_go(name: str) -> str:
    """Return the name of a field in Go, as the message lists it."""
    words = name.replace("x-kubernetes", "x").split("-")
    return "".join(each[0].upper() + each[1:] for each in words)


def _validate_schema(version: JSON, field: str, *, has_status: bool) -> Iterator[Cause]:
    """Yield the errors in a schema (validateCustomResourceDefinitionValidation)."""
    root, where = (version.get("schema") or {}).get("openAPIV3Schema"), field
    if not isinstance(root, dict):
        return
    if has_status:
        yield from _validate_root(root, where)
    if root.get("nullable"):
        detail = "nullable cannot be true at the root"
        yield forbidden_field(f"{where}.nullable", detail)
    causes = validate_structure(root, where)
    if not causes:
        causes = [*validate_defaults(root, where, is_resource=True)]
    causes += validate_schema(root, where)
    yield from causes or validate_costs(root, where)


def _validate_root(schema: JSON, path: str) -> Iterator[Cause]:
    """Yield errors for fields at the root that a status subresource forbids."""
    type_ = schema.get("type", "object")
    if type_ != "object":
        detail = (
            'only "object" is allowed as the type at the root of the schema if the '
            "status subresource is enabled"
        )
        yield invalid(f"{path}.type", shown(type_), detail)
    if any(each not in _AT_ROOT for each in schema):
        listed = " ".join(map(_in_go, _AT_ROOT))
        detail = (
            f"only [{listed}] fields are allowed at the root of the schema if the "
            "status subresource is enabled"
        )
        yield invalid(path, shown(schema), detail)


# Versions


def _agreed(versions: list[JSON]) -> list[str]:
    """Return the fields that are the same in all versions."""
    return [
        name
        for name in ("schema", *_FIELDS)
        if versions
        and all(each.get(name) == versions[0].get(name) for each in versions)
    ]


def _own_fields(version: JSON, path: str, spec: JSON) -> Iterator[Cause]:
    """Check the fields of a version in which it differs from others."""
    agreed = _agreed(spec["versions"])
    if "schema" not in agreed:
        where, has_status = f"{path}schema.openAPIV3Schema", _has_status(version)
        yield from _validate_schema(version, where, has_status=has_status)
    for name, rules in _FIELDS.items():
        if name not in agreed:
            yield from rules.errors(version, path=path)


def _agreed_fields(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the fields that all versions have in common."""
    versions = spec.get("versions") or []
    agreed = _agreed(versions)
    if "schema" in agreed:
        where = f"{path}validation.openAPIV3Schema"
        has_status = any(map(_has_status, versions))
        yield from _validate_schema(versions[0], where, has_status=has_status)
    for name, rules in _FIELDS.items():
        if name in agreed:
            yield from rules.errors(versions[0], path=path)


def _has_status(version: JSON) -> bool:
    return "status" in (version.get("subresources") or {})


def _warning(warning: str, _: str) -> Iterator[str]:
    if len(warning) > _LONGEST:
        yield f"must be <= {_LONGEST} characters long"
    if not warning:
        yield "must not be an empty string"
    for number, each in enumerate(warning):
        if not each.isprintable():
            yield (
                "must only contain printable UTF-8 characters; non-printable "
                f"character found at index {number}"
            )
            return


# The rules for definitions (pkg/apis/apiextensions/validation).

# Names


def _name(name: str, _: str) -> Iterator[str]:
    if name and (problems := service_name_problems(name)):
        yield ",".join(problems)


def _mixed_name(name: str, _: str) -> Iterator[str]:
    if problems := service_name_problems(name.lower()):
        yield f"may have mixed case, but should otherwise match: {','.join(problems)}"


def _version_name(name: str, field: str) -> Iterator[Cause]:
    if problems := service_name_problems(name):
        yield invalid(field, shown(name), ",".join(problems))


def _group_name(group: str, _: str) -> Iterator[str]:
    if problems := subdomain_problems(group):
        yield ",".join(problems)
    elif "." not in group:
        yield "should be a domain with at least one dot"


def _is_one_kind(names: JSON, _: JSON) -> bool:
    return bool(names.get("kind")) and names["kind"] == names.get("listKind")


_NAMES: Final = table("""
    plural, singular, kind, listKind: required
    plural, singular: name
    kind, listKind: mixed_name
    shortNames[]: name
    categories[]: name
    listKind: invalid if is_one_kind "kind and listKind may not be the same"
    """)


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


DEFINITION: Final = table("""
    group: required group_name
    scope: required enum Cluster Namespaced filled
    versions[]:
      schema always:
        openAPIV3Schema: required pointer "schemas are required"
    versions[]:
      name: version_name default empty
      deprecationWarning: invalid
        if has deprecationWarning and deprecated is-not true
        "can only be set for deprecated versions"
      deprecationWarning: warning pointer if deprecated is true
      hook own_fields
    hook one_stored
    names always:
      include NAMES
    hook agreed_fields conversion
    preserveUnknownFields: invalid if preserveUnknownFields is true
      "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
      "spec.versions[*].schema instead"
    """)
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


RULES: Final = table("""
    spec:
      include DEFINITION
    hook stored_versions
    """)
NEW_RULES: Final = table("hook approval own_name")


def _was_established(_: JSON, old: JSON) -> bool:
    return "Established" in true_conditions(old)


UPDATE_RULES: Final = table("""
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
    """)
