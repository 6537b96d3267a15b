"""The kinds of the group authorization.k8s.io: reviews of access, which are not stored.

Upstream: pkg/apis/authorization/validation, pkg/registry/authorization.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import SelectorError, parse_selector
from controller_manager.devcluster.apiserver.kind import is_field_selector
from controller_manager.devcluster.apiserver.objects import Call, RESTStorage
from controller_manager.devcluster.apiserver.security import Attributes, User
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    bad_request,
    invalid,
    invalid_object,
    required,
    shown,
)
from controller_manager.devcluster.validation.text import table

from .built_in import kind_of

# Rules


def _attributes(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that a review is about a resource or about a path."""
    url, resource = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if url is not None and resource is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        yield invalid(f"{path}nonResourceAttributes", _shown_path(url), detail)
    if url is None and resource is None:
        detail = (
            "exactly one of nonResourceAttributes or resourceAttributes must be "
            "specified"
        )
        yield invalid(f"{path}resourceAttributes", '"null"', detail)


def _shown_path(url: JSON) -> str:
    """Return attributes as Go shows those of its storage type."""
    return shown({"Path": url.get("path", ""), "Verb": url.get("verb", "")})


def _given(selector: JSON, path: str, _: JSON) -> Iterator[Cause]:
    if not selector.get("rawSelector") and not selector.get("requirements"):
        detail = (
            f"when {path[:-1]} is specified, requirements or rawSelector is required"
        )
        yield required(f"{path}requirements", detail)


def _metadata(review: JSON, _: str, __: JSON) -> Iterator[Cause]:
    yield from _empty_metadata(review, "must be empty")


def _local(review: JSON, _: str, __: JSON) -> Iterator[Cause]:
    """Check that a review for one namespace is about a resource in it."""
    yield from _empty_metadata(
        review, "must be empty except for namespace", "namespace"
    )
    spec = review.get("spec") or {}
    namespace = (review.get("metadata") or {}).get("namespace", "")
    wanted, url = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if wanted is not None and wanted.get("namespace", "") != namespace:
        value = shown(wanted.get("namespace", ""))
        detail = "must match metadata.namespace"
        yield invalid("spec.resourceAttributes.namespace", value, detail)
    if url is not None:
        detail = "disallowed on this kind of request"
        yield invalid("spec.nonResourceAttributes", _shown_path(url), detail)


def _empty_metadata(review: JSON, detail: str, *allowed: str) -> Iterator[Cause]:
    metadata = review.get("metadata") or {}
    if any(metadata[each] for each in {*metadata} - {"managedFields", *allowed}):
        yield invalid("metadata", shown(metadata), detail)


_SELECTOR: Final = table(
    """
    when has rawSelector and has requirements:
      rawSelector: invalid "may not specified at the same time as requirements"
    hook given
    requirements[]:
      values: required if operator is In NotIn
        "must be specified when `operator` is 'In' or 'NotIn'"
      values: forbidden filled if operator is Exists DoesNotExist
        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
      key: required "must be specified"
    """,
    _given,
)
_SELECTORS: Final = table(
    """
    resourceAttributes:
      fieldSelector:
        include SELECTOR
      labelSelector:
        include SELECTOR
    """,
    SELECTOR=_SELECTOR,
)
_OF_ANY_USER: Final = table(
    """
    spec always:
      hook attributes
      user: invalid default empty if lacks user and lacks groups
        "at least one of user or group must be specified"
      include SELECTORS
    """,
    _attributes,
    SELECTORS=_SELECTORS,
)

# Attributes and answers


def reviewed(call: Call, obj: JSON, status: JSON) -> JSON:
    """Return a review with its status."""
    return {
        "kind": call.kind.kind,
        "apiVersion": call.kind.api_version,
        "metadata": obj.get("metadata", {}),
        "spec": obj.get("spec", {}),
        "status": status,
    }


_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_FIELD_OPERATORS: Final = ("In", "NotIn")


def _review_attributes(spec: JSON) -> Attributes:
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


def _reviewed_user(spec: JSON) -> User:
    """Return the user that the spec of a review describes."""
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    return User(spec.get("user", ""), spec.get("uid", ""), groups, extra)


def _evaluation_error(spec: JSON) -> str:
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


def _checked(call: Call, review: JSON) -> None:
    """Raise Refusal 422 if a review has errors."""
    if causes := call.kind.strategy.validate(review):
        raise invalid_object(call.kind.group, call.kind.kind, "", causes)


def _decided(call: Call, review: JSON, user: User) -> JSON:
    """Return a review with the decision about `user` as its status."""
    spec, authorizer = review.get("spec") or {}, call.authorizer
    decide = authorizer.decide if user is call.user else authorizer.review
    decision = decide(user, _review_attributes(spec))
    status: JSON = {"allowed": decision.is_allowed}
    if decision.reason:
        status["reason"] = decision.reason
    if error := _evaluation_error(spec):
        status["evaluationError"] = error
    return reviewed(call, review, status)


# Kinds: each function returns the review with its status, or raises Refusal


def _review(call: Call, review: JSON) -> JSON:
    _checked(call, review)
    return _decided(call, review, _reviewed_user(review["spec"]))


REVIEWS: Final = kind_of(
    "authorization.k8s.io/v1",
    "subjectaccessreviews",
    Strategy(
        rules=table(
            "include OF_ANY_USER\nhook metadata", _metadata, OF_ANY_USER=_OF_ANY_USER
        )
    ),
)
STORAGE: Final = RESTStorage(REVIEWS.resource, create=_review)


def _review_self(call: Call, review: JSON) -> JSON:
    _checked(call, review)
    return _decided(call, review, call.user)


SELF_REVIEWS: Final = kind_of(
    "authorization.k8s.io/v1",
    "selfsubjectaccessreviews",
    Strategy(
        rules=table(
            """
            spec always:
              hook attributes
              include SELECTORS
            hook metadata
            """,
            _attributes,
            _metadata,
            SELECTORS=_SELECTORS,
        )
    ),
)
SELF_STORAGE: Final = RESTStorage(SELF_REVIEWS.resource, create=_review_self)


def _review_locally(call: Call, review: JSON) -> JSON:
    """With it, an administrator of a namespace may ask about users in it."""
    metadata = review.setdefault("metadata", {})
    if not metadata.get("namespace"):
        metadata["namespace"] = call.namespace
    _checked(call, review)
    if metadata["namespace"] != call.namespace:
        message = (
            f"spec.resourceAttributes.namespace must match namespace: {call.namespace}"
        )
        raise bad_request(message)
    return _decided(call, review, _reviewed_user(review["spec"]))


LOCAL_REVIEWS: Final = kind_of(
    "authorization.k8s.io/v1",
    "localsubjectaccessreviews",
    Strategy(
        rules=table("include OF_ANY_USER\nhook local", _local, OF_ANY_USER=_OF_ANY_USER)
    ),
)
LOCAL_STORAGE: Final = RESTStorage(LOCAL_REVIEWS.resource, create=_review_locally)

_RESOURCE_FIELDS: Final = ("verbs", "apiGroups", "resources", "resourceNames")
_PATH_FIELDS: Final = ("verbs", "nonResourceURLs")


def _part(rule: Mapping[str, Any], fields: tuple[str, ...]) -> JSON:
    return {name: rule[name] for name in fields if rule.get(name)}


def _review_rules(call: Call, review: JSON) -> JSON:
    namespace = (review.get("spec") or {}).get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    found = call.authorizer.rules_for(call.user, namespace)
    status: JSON = {
        "resourceRules": [
            _part(each, _RESOURCE_FIELDS)
            for each in found.rules
            if each.get("resources")
        ],
        "nonResourceRules": [
            _part(each, _PATH_FIELDS)
            for each in found.rules
            if each.get("nonResourceURLs")
        ],
        "incomplete": False,
    }
    if found.errors:
        status["evaluationError"] = found.error
    return {
        "kind": call.kind.kind,
        "apiVersion": call.kind.api_version,
        "metadata": {},
        "spec": {},
        "status": status,
    }


RULES_REVIEWS: Final = kind_of("authorization.k8s.io/v1", "selfsubjectrulesreviews")
RULES_STORAGE: Final = RESTStorage(RULES_REVIEWS.resource, create=_review_rules)
