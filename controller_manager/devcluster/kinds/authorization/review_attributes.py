"""The attributes of an access review (pkg/registry/authorization/util/helpers.go)."""

from collections.abc import Callable, Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import SelectorError, parse_selector
from controller_manager.devcluster.server.rest.selection import is_field_selector
from controller_manager.devcluster.server.security.authentication import User
from controller_manager.devcluster.server.security.authorization import Attributes

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_FIELD_OPERATORS: Final = ("In", "NotIn")


def review_attributes(spec: JSON) -> Attributes:
    """Return the attributes that the spec of a review describes."""
    wanted = spec.get("resourceAttributes")
    if wanted is None:
        path = spec.get("nonResourceAttributes") or {}
        return Attributes(path.get("verb", ""), path=path.get("path") or "/")
    return Attributes(
        wanted.get("verb", ""),
        group=wanted.get("group", ""),
        resource=wanted.get("resource", ""),
        subresource=wanted.get("subresource", ""),
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
    )


def reviewed_user(spec: JSON) -> User:
    """Return the user that the spec of a review describes."""
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    return User(spec.get("user", ""), spec.get("uid", ""), groups, extra)


def evaluation_error(spec: JSON) -> str:
    """Return the evaluation error: a selector that cannot be parsed.

    No authorizer of this server looks at selectors, so the decision is the same
    without them.
    """
    wanted = spec.get("resourceAttributes") or {}
    return "; ".join(
        error
        for field, is_readable, operators in (
            ("fieldSelector", is_field_selector, _FIELD_OPERATORS),
            ("labelSelector", _is_label_selector, _LABEL_OPERATORS),
        )
        for error in _unread(field, wanted.get(field) or {}, is_readable, operators)
    )


def _unread(
    field: str,
    selector: JSON,
    is_readable: Callable[[str], bool],
    operators: tuple[str, ...],
) -> Iterator[str]:
    """Yield the error text for a selector with a part that cannot be parsed."""
    path = f"spec.resourceAttributes.{field}"
    requirements = selector.get("requirements") or []
    if requirements:
        wrong = [each for each in requirements if not _is_right(each, field, operators)]
        if wrong:
            part = "partially " if len(wrong) < len(requirements) else ""
            yield f"{path} {part}ignored due to parse error"
    elif not is_readable(selector.get("rawSelector", "")):
        yield f"{path} ignored due to parse error"


def _is_right(requirement: JSON, field: str, operators: tuple[str, ...]) -> bool:
    operator, values = requirement.get("operator"), requirement.get("values") or []
    if operator not in operators:
        return False
    if field == "fieldSelector":
        return len(values) == 1
    return bool(values) is (operator in ("In", "NotIn"))


def _is_label_selector(text: str) -> bool:
    try:
        parse_selector(text)
    except SelectorError:
        return False
    return True
