"""The kinds that a policy matches, and the warnings about it (typechecking.go)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from controller_manager.api.admissionregistration.v1 import (
    ResourceRule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
    Variable,
)
from controller_manager.cel.checker import check
from controller_manager.cel.parser import parse
from controller_manager.cel.syntax import Node, SyntaxProblem, text_of
from controller_manager.cel.types import DYN, Type, object_of
from controller_manager.client.discovery.resources import ServedResource

_MAX_KINDS: Final = 10
"""The largest number of kinds of one rule that are checked."""


class GroupVersionKind(NamedTuple):
    """A kind in a version of its group."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        """Return the text at the start of warnings."""
        return f"{self.group}/{self.version}, Kind={self.kind}"


def kinds_to_check(
    policy: ValidatingAdmissionPolicy, served: Iterable[ServedResource]
) -> list[GroupVersionKind]:
    """Return the kinds that a policy matches by name, in order.

    Rules for any group or any version do not count. Once a rule has ten kinds, the
    following rules do not count, either.
    """
    served = list(served)
    match = policy.spec.match_constraints
    found: set[GroupVersionKind] = set()
    for rule in (match.resource_rules if match is not None else None) or ():
        of_rule = [kind for each in _named(rule) for kind in _kinds(each, served)]
        found.update(of_rule[:_MAX_KINDS])
        if len(of_rule) >= _MAX_KINDS:
            break
    return sorted(found)


def params_kind(policy: ValidatingAdmissionPolicy) -> GroupVersionKind | None:
    """Return the kind of a policy's parameters, `None` if it has none."""
    kind = policy.spec.param_kind
    if kind is None:
        return None
    group, _, version = kind.api_version.rpartition("/")
    return GroupVersionKind(group, version, kind.kind)


def is_served(kind: GroupVersionKind, served: Iterable[ServedResource]) -> bool:
    """Tell whether the API server serves a kind."""
    return any((each.group, each.version, each.kind) == kind for each in served)


def _named(rule: ResourceRule) -> Iterable[tuple[str, str, str]]:
    """Yield the group, version and name of each resource that a rule names."""
    groups, versions = rule.api_groups or (), rule.api_versions or ()
    if any("*" in each for each in (*groups, *versions)):
        return ()
    resources = [each for each in rule.resources or () if not {"*", "/"} & {*each}]
    return product(sorted(groups), sorted(versions), sorted(resources))


def _kinds(
    named: tuple[str, str, str], served: Sequence[ServedResource]
) -> list[GroupVersionKind]:
    """Return the kinds of a resource.

    As in upstream's mapper, the core group stands for any group: ``events`` in ``v1``
    are also those of events.k8s.io.
    """
    group, version, plural = named
    return [
        GroupVersionKind(each.group, each.version, each.kind)
        for each in served
        if each.version == version
        and each.plural == plural
        and group in ("", each.group)
    ]


_PARAMS: Final = "params"


class Kinds(NamedTuple):
    """The types of the objects that a policy matches.

    `objects` has the type of each kind, with the text at the start of its warnings.
    `params` is the type of the policy's parameters, `None` if it has none.
    """

    objects: Sequence[tuple[str, Type]]
    params: Type | None


def warnings_of(
    spec: ValidatingAdmissionPolicySpec, kinds: Kinds
) -> Iterator[dict[str, Any]]:
    """Yield the warnings about the expressions of a policy, field by field.

    An expression that cannot be parsed has no warning, since the API server could parse
    it.
    """
    scopes = [
        (text, _scope(found, kinds.params, spec.variables or ()))
        for text, found in kinds.objects
    ]
    for number, validation in enumerate(spec.validations or ()):
        field = f"spec.validations[{number}]"
        for name, expression in (
            ("expression", validation.expression),
            ("messageExpression", validation.message_expression),
        ):
            if warning := _warning(expression, scopes):
                yield {"fieldRef": f"{field}.{name}", "warning": warning}


def _scope(
    found: Type, params: Type | None, variables: Iterable[Variable]
) -> Mapping[str, Type]:
    """Return the types of the names that expressions may use for one kind."""
    names: dict[str, Type] = {"object": found, "oldObject": found}
    if params is not None:
        names[_PARAMS] = params
    known: dict[str, Type] = {}
    for each in variables:
        here = {**names, "variables": object_of(dict(known))}
        known[each.name] = _type_of(each.expression, here)
    return {**names, "variables": object_of(known)}


def _type_of(expression: str, names: Mapping[str, Type]) -> Type:
    """Return the type of a variable, `DYN` if its expression has an error."""
    node = _parsed(expression)
    if node is None:
        return DYN
    found = check(node, names, _undeclared(names))
    return DYN if found.problems else found.type


def _warning(expression: str, scopes: Iterable[tuple[str, Mapping[str, Type]]]) -> str:
    node = _parsed(expression) if expression else None
    if node is None:
        return ""
    results = ((text, check(node, names, _undeclared(names))) for text, names in scopes)
    return "\n".join(
        f"{text}: {text_of(expression, each.problems)}\n"
        for text, each in results
        if each.problems
    )


def _parsed(expression: str) -> Node | None:
    try:
        return parse(expression)
    except SyntaxProblem:
        return None


def _undeclared(names: Mapping[str, Type]) -> frozenset[str]:
    return frozenset((_PARAMS,)) - names.keys()
