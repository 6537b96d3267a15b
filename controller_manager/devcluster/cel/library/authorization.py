"""The authorizer in expressions (library/authz.go of k8s.io/apiserver)."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.devcluster.cel.values import EvaluationError, Value

from .checks import expect


class Asked(Struct, frozen=True):
    """A request for a resource or a path, about which an expression asks.

    Without an `account` it is about the user of the admission request.
    """

    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    account: tuple[str, str] | None = None


class Decision(Struct, frozen=True):
    """The answer of the authorizer: a request is allowed or not, and the reason."""

    allowed: bool
    reason: str = ""


class AuthorizerValue(Struct, frozen=True):
    """The value ``authorizer``; `decide` answers."""

    decide: Callable[[Asked], Decision]
    account: tuple[str, str] | None = None


class PathCheck(Struct, frozen=True):
    """A path, before the expression names a verb."""

    decide: Callable[[Asked], Decision]
    asked: Asked


class GroupCheck(Struct, frozen=True):
    """An API group, before the expression names a resource."""

    decide: Callable[[Asked], Decision]
    asked: Asked


class ResourceCheck(Struct, frozen=True):
    """A resource, before the expression names a verb."""

    decide: Callable[[Asked], Decision]
    asked: Asked


def _service_account(one: Value, namespace: Value, name: Value) -> AuthorizerValue:
    found = expect(one, AuthorizerValue)
    return replace(found, account=(expect(namespace, str), expect(name, str)))


def _path(one: Value, path: Value) -> PathCheck:
    found = expect(one, AuthorizerValue)
    if not expect(path, str):
        msg = "path must not be empty"
        raise EvaluationError(msg)
    return PathCheck(found.decide, Asked(path=path, account=found.account))


def _group(one: Value, group: Value) -> GroupCheck:
    found = expect(one, AuthorizerValue)
    asked = Asked(group=expect(group, str), account=found.account)
    return GroupCheck(found.decide, asked)


def _resource(one: Value, resource: Value) -> ResourceCheck:
    found = expect(one, GroupCheck)
    return ResourceCheck(
        found.decide, replace(found.asked, resource=expect(resource, str))
    )


def _with(field: str) -> Callable[[Value, Value], ResourceCheck]:
    def narrowed(one: Value, value: Value) -> ResourceCheck:
        found = expect(one, ResourceCheck)
        asked = replace(found.asked, **{field: expect(value, str)})
        return ResourceCheck(found.decide, asked)

    return narrowed


def _check(one: Value, verb: Value) -> Decision:
    if not isinstance(one, PathCheck):
        one = expect(one, ResourceCheck)
    found: PathCheck | ResourceCheck = one
    return found.decide(replace(found.asked, verb=expect(verb, str)))


def _allowed(one: Value) -> bool:
    return expect(one, Decision).allowed


def _reason(one: Value) -> str:
    return expect(one, Decision).reason


def _errored(one: Value) -> bool:
    expect(one, Decision)
    return False  # nothing that this authorizer does can fail


def _error(one: Value) -> str:
    expect(one, Decision)
    return ""


METHODS: Final[Mapping[str, Callable[..., Value]]] = {
    "allowed": _allowed,
    "check": _check,
    "error": _error,
    "errored": _errored,
    "group": _group,
    "name": _with("name"),
    "namespace": _with("namespace"),
    "path": _path,
    "reason": _reason,
    "resource": _resource,
    "serviceAccount": _service_account,
    "subresource": _with("subresource"),
}
