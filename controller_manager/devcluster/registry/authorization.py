"""The kinds of the group authorization.k8s.io: reviews of access, which are not stored.

Upstream: pkg/apis/authorization/validation, pkg/registry/authorization.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.objects import Call, RESTStorage
from controller_manager.devcluster.apiserver.security import Attributes, User
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.validation.text import table

from .kinds import kind_of

# Rules


def _attributes(spec: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    """Check that a review is about a resource or about a path."""
    url, resource = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if url is not None and resource is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        yield statuses.invalid(f"{path}nonResourceAttributes", _shown_path(url), detail)
    if url is None and resource is None:
        detail = (
            "exactly one of nonResourceAttributes or resourceAttributes must be "
            "specified"
        )
        yield statuses.invalid(f"{path}resourceAttributes", '"null"', detail)


def _shown_path(url: JSON) -> str:
    """Return attributes as Go shows those of its storage type."""
    return statuses.shown({"Path": url.get("path", ""), "Verb": url.get("verb", "")})


def _metadata(review: JSON, _: str, __: JSON) -> Iterator[statuses.Cause]:
    yield from _empty_metadata(review, "must be empty")


def _local(review: JSON, _: str, __: JSON) -> Iterator[statuses.Cause]:
    """Check that a review for one namespace is about a resource in it."""
    yield from _empty_metadata(
        review, "must be empty except for namespace", "namespace"
    )
    spec = review.get("spec") or {}
    namespace = (review.get("metadata") or {}).get("namespace", "")
    wanted, url = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if wanted is not None and wanted.get("namespace", "") != namespace:
        value = statuses.shown(wanted.get("namespace", ""))
        detail = "must match metadata.namespace"
        yield statuses.invalid("spec.resourceAttributes.namespace", value, detail)
    if url is not None:
        detail = "disallowed on this kind of request"
        yield statuses.invalid("spec.nonResourceAttributes", _shown_path(url), detail)


def _empty_metadata(
    review: JSON, detail: str, *allowed: str
) -> Iterator[statuses.Cause]:
    metadata = review.get("metadata") or {}
    if any(metadata[each] for each in {*metadata} - {"managedFields", *allowed}):
        yield statuses.invalid("metadata", statuses.shown(metadata), detail)


_OF_ANY_USER: Final = table("""
    spec always:
      hook attributes
      user: invalid default empty if lacks user and lacks groups
        "at least one of user or group must be specified"
    """)

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


def _review_attributes(spec: JSON) -> Attributes:
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
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    return User(spec.get("user", ""), spec.get("uid", ""), groups, extra)


def _checked(call: Call, review: JSON) -> None:
    """Raise Refusal 422 if a review has errors."""
    if causes := call.kind.strategy.validate(review):
        raise statuses.invalid_object(call.kind.group, call.kind.kind, "", causes)


def _decided(call: Call, review: JSON, user: User) -> JSON:
    """Return a review with the decision about `user` as its status."""
    spec, authorizer = review.get("spec") or {}, call.authorizer
    decide = authorizer.decide if user is call.user else authorizer.review
    decision = decide(user, _review_attributes(spec))
    status: JSON = {"allowed": decision.is_allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return reviewed(call, review, status)


# Kinds: each function returns the review with its status, or raises Refusal


def _review(call: Call, review: JSON) -> JSON:
    _checked(call, review)
    return _decided(call, review, _reviewed_user(review["spec"]))


REVIEWS: Final = kind_of(
    "authorization.k8s.io/v1",
    "subjectaccessreviews",
    rules="include OF_ANY_USER\nhook metadata",
)
STORAGE: Final = RESTStorage(REVIEWS.resource, create=_review)


def _review_self(call: Call, review: JSON) -> JSON:
    _checked(call, review)
    return _decided(call, review, call.user)


SELF_REVIEWS: Final = kind_of(
    "authorization.k8s.io/v1",
    "selfsubjectaccessreviews",
    rules="""
        spec always:
          hook attributes
        hook metadata
        """,
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
        raise statuses.bad_request(message)
    return _decided(call, review, _reviewed_user(review["spec"]))


LOCAL_REVIEWS: Final = kind_of(
    "authorization.k8s.io/v1",
    "localsubjectaccessreviews",
    rules="include OF_ANY_USER\nhook local",
)
LOCAL_STORAGE: Final = RESTStorage(LOCAL_REVIEWS.resource, create=_review_locally)

_RESOURCE_FIELDS: Final = ("verbs", "apiGroups", "resources", "resourceNames")
_PATH_FIELDS: Final = ("verbs", "nonResourceURLs")


def _part(rule: Mapping[str, Any], fields: tuple[str, ...]) -> JSON:
    return {name: rule[name] for name in fields if rule.get(name)}


def _review_rules(call: Call, review: JSON) -> JSON:
    namespace = (review.get("spec") or {}).get("namespace")
    if not namespace:
        raise statuses.bad_request("no namespace on request")
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


RULES_REVIEWS: Final = kind_of(
    "authorization.k8s.io/v1",
    "selfsubjectrulesreviews",
)
RULES_STORAGE: Final = RESTStorage(RULES_REVIEWS.resource, create=_review_rules)
