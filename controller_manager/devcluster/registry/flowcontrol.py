"""Flow schemas and priority levels; this server limits no request.

Upstream: pkg/apis/flowcontrol/validation, apiserver/pkg/apis/flowcontrol/bootstrap.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects, RESTStorage
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.scheme import names, statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown
from controller_manager.devcluster.storage import Stored
from controller_manager.devcluster.validation.text import table

from .built_in import bootstrap_manifest, fixed_uid, kind_of
from .columns import columns, name_of

_MANDATORY: Final = ("exempt", "catch-all")
"""The names of mandatory schemas and levels, which always exist with these specs."""


def _specs(kind: str) -> Mapping[str, JSON]:
    """Return the specs of a kind in the manifest, by name."""
    objects = bootstrap_manifest("bootstrap-flows.yaml")
    return {
        each["metadata"]["name"]: each["spec"]
        for each in objects
        if each["kind"] == kind
    }


_SCHEMAS: Final = _specs("FlowSchema")
_LEVELS: Final = _specs("PriorityLevelConfiguration")


def _fixed(name: str, spec: JSON, fixed: JSON, but: str = "") -> Iterator[Cause]:
    """Check that the spec of a mandatory object is the one that it must have.

    `but` names the part that may differ.
    """
    if spec != fixed:
        why = f"spec of '{name}' {but}must equal the fixed value"
        yield statuses.invalid("spec", shown(spec), why)


_CONDITION_TYPES: Final = table(
    """
    status:
      conditions[]:
        type: unique pointer
        type: required "must not be empty"
    """
)

# Flow schemas

_VERBS: Final = (
    *("create", "delete", "deletecollection", "get", "list", "patch", "proxy"),
    *("update", "watch"),
)
_NAMESPACE: Final = "each member of this list must be '*' or a DNS-1123 label; "
_TITLES: Final = {"apiGroups": "api groups", "nonResourceURLs": "non-resource URLs"}
_REFERENCE: Final = "This FlowSchema references the PriorityLevelConfiguration object"


def _lone_star(values: Sequence[str], field: str) -> Iterator[Cause]:
    if "*" in values and len(values) > 1:
        name = field.rpartition(".")[2]
        why = f"if '*' is present, must not specify other {_TITLES.get(name, name)}"
        yield statuses.invalid(field, shown(values), why)


def _verbs(verbs: Sequence[str], field: str) -> Iterator[Cause]:
    yield from _lone_star(verbs, field)
    if "*" not in verbs and not set(verbs) <= set(_VERBS):
        yield statuses.not_supported(field, shown(verbs), _VERBS)


def _namespaces(namespaces: Sequence[str], field: str) -> Iterator[Cause]:
    yield from _lone_star(namespaces, field)
    if "*" in namespaces:
        return
    for number, each in enumerate(namespaces):
        for cause in names.validate_label(each, f"{field}[{number}]"):
            start = f"Invalid value: {shown(each)}: "
            cause.detail = f"{start}{_NAMESPACE}{cause.detail.removeprefix(start)}"
            yield cause


def _paths(paths: Sequence[str], field: str) -> Iterator[Cause]:
    yield from _lone_star(paths, field)
    for number, path in enumerate(() if "*" in paths else paths):
        if problem := _problem_of_path(path):
            yield statuses.invalid(f"{field}[{number}]", shown(path), problem)


def _problem_of_path(path: str) -> str:
    """Return why a path cannot be in a rule, "" if it can."""
    found = (
        (not path, "must not be empty"),
        (not path.startswith("/"), "must start with slash"),
        (" " in path, "must not contain white-space"),
        ("//" in path, "must not contain double slash"),
        (
            path.count("*") > 1 or ("*" in path and not path.endswith("/*")),
            "wildcard can only do suffix matching",
        ),
    )
    return next((detail for is_so, detail in found if is_so), "")


def _is_first(spec: JSON, schema: JSON) -> bool:
    """Tell whether a schema has the precedence of another one."""
    is_exempt = schema["metadata"].get("name") == "exempt"
    return spec["matchingPrecedence"] == 1 and not is_exempt


def _fixed_schema(schema: JSON, _: str, __: JSON) -> Iterator[Cause]:
    if (name := schema["metadata"].get("name", "")) in _MANDATORY:
        yield from _fixed(name, schema["spec"], _SCHEMAS[name])


class _SchemaStrategy(Strategy):
    """Lists the schemas in the order in which requests meet them."""

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the precedence."""
        spec = obj.setdefault("spec", {})
        spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000

    def in_table_order(self, items: Iterable[Stored]) -> Iterable[Stored]:
        """Return the schemas by precedence, then by name."""
        return sorted(items, key=_precedence)


def _precedence(stored: Stored) -> tuple[int, str]:
    return stored.obj["spec"]["matchingPrecedence"], name_of(stored.obj)


def _missing(schema: JSON) -> str:
    """Return whether the priority level of a schema is missing."""
    conditions = schema.get("status", {}).get("conditions", ())
    found = (each["status"] for each in conditions if each["type"] == "Dangling")
    return next(found, "?")


_SUBJECT: Final = table(
    """
    kind: enum Group ServiceAccount User default empty
    when kind is Group:
      group: required pointer "group is required when subject kind is 'Group'"
      group:
        name: required
    when kind is ServiceAccount:
      serviceAccount: required pointer
        "serviceAccount is required when subject kind is 'ServiceAccount'"
      serviceAccount:
        name: required
        name: subdomain if name is-not *
        namespace: required "must specify namespace for service account"
        namespace: label
    when kind is User:
      user: required pointer "user is required when subject kind is 'User'"
      user:
        name: required
    when kind is Group ServiceAccount User:
      group: forbidden if kind is-not Group
        "group is forbidden when subject kind is not 'Group'"
      serviceAccount: forbidden if kind is-not ServiceAccount
        "serviceAccount is forbidden when subject kind is not 'ServiceAccount'"
      user: forbidden if kind is-not User
        "user is forbidden when subject kind is not 'User'"
    """
)
_FLOW_SCHEMA: Final = table(
    """
    spec:
      matchingPrecedence: at-least 1 "must be a positive value"
      matchingPrecedence: at-most 10000 "must not be greater than 10000"
      matchingPrecedence: invalid if is_first
        "only the schema named 'exempt' may have matchingPrecedence 1"
      distinguisherMethod:
        type: enum ByNamespace ByUser default empty
      priorityLevelConfiguration always:
        name: required "must reference a priority level"
        name: subdomain
      rules[]:
        subjects[]:
          include SUBJECT
        subjects: required "subjects must contain at least one value"
        resourceRules: required at self if lacks resourceRules nonResourceRules
          "at least one of resourceRules and nonResourceRules has to be non-empty"
        resourceRules[]:
          verbs: required "verbs must contain at least one value"
          verbs: verbs
          apiGroups: required "resource rules must supply at least one api group"
          apiGroups: lone_star
          resources: required "resource rules must supply at least one resource"
          resources: lone_star
          namespaces: required if clusterScope is false null
            "resource rules that are not cluster scoped must supply at least one"
            "namespace"
          namespaces: namespaces
        nonResourceRules[]:
          verbs: required "verbs must contain at least one value"
          verbs: verbs
          nonResourceURLs: required "nonResourceURLs must contain at least one value"
          nonResourceURLs: paths
    hook fixed_schema
    """,
    _is_first,
    _lone_star,
    _verbs,
    _namespaces,
    _paths,
    _fixed_schema,
    SUBJECT=_SUBJECT,
)
SCHEMAS: Final = kind_of(
    "flowcontrol.apiserver.k8s.io/v1",
    "flowschemas",
    _SchemaStrategy(
        counts_generations=True,
        rules=_FLOW_SCHEMA,
        status_rules=_CONDITION_TYPES,
        printer=columns(
            """
            Name
            PriorityLevel: .spec.priorityLevelConfiguration.name
            MatchingPrecedence: .spec.matchingPrecedence
            DistinguisherMethod: .spec.distinguisherMethod.type or <none>
            Age
            MissingPL: missing
            """,
            _missing,
        ),
    ),
)

# Priority levels

_HASH_BITS: Final = 60


def _is_named_otherwise(spec: JSON, level: JSON) -> bool:
    is_exempt = level["metadata"].get("name") == "exempt"
    return bool(is_exempt != (spec.get("type") == "Exempt"))


def _hand(queuing: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that a hand can be dealt from the queues."""
    hand, queues, bits, why = queuing["handSize"], queuing["queues"], 0.0, ""
    if hand <= 0:
        why = "must be positive"
    elif hand > queues:
        why = f"should not be greater than queues ({queues})"
    else:
        for left in range(queues, queues - hand, -1):
            bits += math.log2(left)
            if bits > _HASH_BITS:  # A hand has at most 60 cards.
                why = (
                    f"required entropy bits of deckSize {queues} and handSize {hand} "
                    f"should not be greater than {_HASH_BITS}"
                )
                break
    if why:
        yield statuses.invalid(f"{path}handSize", shown(hand), why)


def _fixed_level(level: JSON, _: str, __: JSON) -> Iterator[Cause]:
    """Check the spec of a mandatory level; the exempt one may lend other shares."""
    name, spec = level["metadata"].get("name", ""), level["spec"]
    if name == "exempt":
        fixed = {**_LEVELS[name], "exempt": spec.get("exempt")}
        yield from _fixed(name, spec, fixed, "except the 'spec.exempt' fields ")
    elif name in _MANDATORY:
        yield from _fixed(name, spec, _LEVELS[name])


class _LevelStrategy(Strategy):
    """Fills in the shares and the queues."""

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the shares, and the sizes of queues that are absent or 0."""
        spec = obj.setdefault("spec", {})
        if spec.get("type") == "Exempt":
            spec.setdefault("exempt", {})
        super().apply_defaults(obj)
        queuing = spec.get("limited", {}).get("limitResponse", {}).get("queuing")
        if queuing is not None:
            for name, value in _QUEUING.items():
                queuing[name] = queuing.get(name) or value


def _queue_length(level: JSON) -> int | str:
    limited = level["spec"].get("limited", {})
    queuing = limited.get("limitResponse", {}).get("queuing", {})
    length: int | str = queuing.get("queueLengthLimit", "<none>")
    return length


_QUEUING: Final = {"handSize": 8, "queues": 64, "queueLengthLimit": 50}
_SHARES: Final = table(
    """
    nominalConcurrencyShares: not-negative "must be a non-negative integer"
    lendablePercent: range 0 100
    """
)
_PRIORITY_LEVEL: Final = table(
    """
    spec:
      type: invalid default empty if is_named_otherwise
        "type must be 'Exempt' if and only if name is 'exempt'"
      type: enum Exempt Limited default empty
      when type is Exempt:
        limited: forbidden "must be nil if the type is not Limited"
        exempt:
          include SHARES
      when type is Limited:
        exempt: forbidden "must be nil if the type is Limited"
        limited: required pointer "must not be empty when type is Limited"
        limited:
          include SHARES
          limitResponse always:
            type: enum Queue Reject default empty
            when type is Reject:
              queuing: forbidden
                "must be nil if limited.limitResponse.type is not Limited"
            when type is Queue:
              queuing: required pointer
                "must not be empty if limited.limitResponse.type is Limited"
              queuing:
                queueLengthLimit, queues: at-least 1 "must be positive"
                queues: at-most 10000000 "must not be greater than 10000000"
                hook hand
          borrowingLimitPercent: not-negative
            "if specified, must be a non-negative integer"
    hook fixed_level
    """,
    _is_named_otherwise,
    _hand,
    _fixed_level,
    SHARES=_SHARES,
)
LEVELS: Final = kind_of(
    "flowcontrol.apiserver.k8s.io/v1",
    "prioritylevelconfigurations",
    _LevelStrategy(
        counts_generations=True,
        defaults={
            "spec": {
                "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
                "limited": {"nominalConcurrencyShares": 30, "lendablePercent": 0},
            }
        },
        rules=_PRIORITY_LEVEL,
        status_rules=_CONDITION_TYPES,
        printer=columns(
            """
            Name
            Type: .spec.type
            NominalConcurrencyShares: .spec.limited.nominalConcurrencyShares or <none>
            Queues: .spec.limited.limitResponse.queuing.queues or <none>
            HandSize: .spec.limited.limitResponse.queuing.handSize or <none>
            QueueLengthLimit: queue_length
            Age
            """,
            _queue_length,
        ),
    ),
)

# The objects that every cluster has


def add_bootstrap_flows(objects: Objects) -> None:
    """Store the mandatory and the suggested objects of upstream that are missing."""
    for name in _LEVELS:
        if not objects.has(LEVELS, "", name):
            _add_level(objects, name)
    for name in _SCHEMAS:
        if not objects.has(SCHEMAS, "", name):
            _add_schema(objects, name)


def _add_level(objects: Objects, name: str) -> None:
    obj = _with_metadata(objects, name, LEVELS.plural)
    objects.put(LEVELS, ("", name), {**obj, "spec": _LEVELS[name], "status": {}})


def _add_schema(objects: Objects, name: str) -> None:
    obj = {**_with_metadata(objects, name, SCHEMAS.plural), "spec": _SCHEMAS[name]}
    _set_dangling(objects, {**obj, "status": {}})


def _with_metadata(objects: Objects, name: str, plural: str) -> JSON:
    """Return the metadata of an object that the API server creates itself.

    An object that is created again has another uid: kubectl waits until the deleted uid
    is gone.
    """
    seed = f"{plural}/{name}/{objects.storage.version}"
    metadata = {
        "name": name,
        "uid": fixed_uid(seed),
        "generation": 1,
        "creationTimestamp": format_time(objects.clock.now()),
        "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"},
    }
    return {"metadata": metadata}


def _set_dangling(objects: Objects, schema: JSON) -> None:
    """Store a schema with the condition Dangling, as the API server's controller."""
    level = schema["spec"]["priorityLevelConfiguration"].get("name", "")
    exists = objects.storage.collection(LEVELS.resource).get(("", level)) is not None
    told = "and it exists" if exists else "but there is no such object"
    condition = {
        "type": "Dangling",
        "status": "False" if exists else "True",
        "reason": "Found" if exists else "NotFound",
        "message": f'{_REFERENCE} named "{level}" {told}',
    }
    conditions = schema["status"].get("conditions", [])
    known = [each for each in conditions if each.get("type") == "Dangling"]
    if known and {**known[0], **condition} == known[0]:
        return
    condition["lastTransitionTime"] = format_time(objects.clock.now())
    others = [each for each in conditions if each.get("type") != "Dangling"]
    status = {"conditions": [*others, condition]}
    objects.put(SCHEMAS, ("", name_of(schema)), {**schema, "status": status})


def _keep_schema(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Set the condition Dangling, and restore a mandatory schema."""
    if new is not None:
        _set_dangling(objects, new)
    elif old is not None and (name := name_of(old)) in _MANDATORY:
        _add_schema(objects, name)


SCHEMA_STORAGE: Final = RESTStorage(SCHEMAS.resource, after_write=_keep_schema)


def _keep_level(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Restore a mandatory level; set Dangling of the schemas of another level."""
    name = name_of(new or old or {})
    if new is None and name in _MANDATORY:
        _add_level(objects, name)
    elif new is None or old is None:
        for stored in list(objects.storage.collection(SCHEMAS.resource)):
            reference = stored.obj["spec"]["priorityLevelConfiguration"]
            if reference.get("name") == name:
                _set_dangling(objects, stored.obj)


LEVEL_STORAGE: Final = RESTStorage(LEVELS.resource, after_write=_keep_level)
