"""The rules for flow schemas and priority levels (pkg/apis/flowcontrol/validation)."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import names, statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown
from controller_manager.devcluster.validation.text import table

from .bootstrap_flows import FLOW_SCHEMAS, MANDATORY, PRIORITY_LEVELS

_VERBS: Final = (
    *("create", "delete", "deletecollection", "get", "list", "patch", "proxy"),
    *("update", "watch"),
)
_NAMESPACE: Final = "each member of this list must be '*' or a DNS-1123 label; "
_HASH_BITS: Final = 60
_TITLES: Final = {"apiGroups": "api groups", "nonResourceURLs": "non-resource URLs"}


def _fixed(name: str, spec: JSON, fixed: JSON, but: str = "") -> Iterator[Cause]:
    """Check that the spec of a mandatory object is the one that it must have.

    `but` names the part that may differ.
    """
    if spec != fixed:
        why = f"spec of '{name}' {but}must equal the fixed value"
        yield statuses.invalid("spec", shown(spec), why)


CONDITION_TYPES: Final = table(
    """
    status:
      conditions[]:
        type: unique pointer
        type: required "must not be empty"
    """
)


# Flow schemas


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
    if (name := schema["metadata"].get("name", "")) in MANDATORY:
        yield from _fixed(name, schema["spec"], FLOW_SCHEMAS[name])


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
FLOW_SCHEMA: Final = table(
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


# Priority levels


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
        fixed = {**PRIORITY_LEVELS[name], "exempt": spec.get("exempt")}
        yield from _fixed(name, spec, fixed, "except the 'spec.exempt' fields ")
    elif name in MANDATORY:
        yield from _fixed(name, spec, PRIORITY_LEVELS[name])


_SHARES: Final = table(
    """
    nominalConcurrencyShares: not-negative "must be a non-negative integer"
    lendablePercent: range 0 100
    """
)
PRIORITY_LEVEL: Final = table(
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
