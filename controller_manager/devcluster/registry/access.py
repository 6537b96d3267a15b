"""Reviews of users, tokens and access, which are not stored; and impersonation.

Upstream: pkg/apis/authorization/validation, pkg/registry/authorization, and
k8s.io/apiserver/pkg/endpoints/filters/impersonation with the old mode alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver import security
from controller_manager.devcluster.apiserver.objects import Call, RESTStorage
from controller_manager.devcluster.apiserver.security import Attributes, User
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import is_label, subdomain_problems
from controller_manager.devcluster.scheme.statuses import bad_request, shown
from controller_manager.devcluster.validation.text import table

from .kinds import kind_of
from .rbac_authorizer import quoted

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
    "authorization.k8s.io/v1/subjectaccessreviews",
    rules="include OF_ANY_USER\nhook metadata",
)
STORAGE: Final = RESTStorage(REVIEWS.resource, create=_review)


def _review_self(call: Call, review: JSON) -> JSON:
    _checked(call, review)
    return _decided(call, review, call.user)


SELF_REVIEWS: Final = kind_of(
    "authorization.k8s.io/v1/selfsubjectaccessreviews",
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
    "authorization.k8s.io/v1/localsubjectaccessreviews",
    rules="include OF_ANY_USER\nhook local",
)
LOCAL_STORAGE: Final = RESTStorage(LOCAL_REVIEWS.resource, create=_review_locally)


def _part(rule: Mapping[str, Any], fields: tuple[str, ...]) -> JSON:
    return {name: rule[name] for name in fields if rule.get(name)}


def _review_rules(call: Call, review: JSON) -> JSON:
    namespace = (review.get("spec") or {}).get("namespace")
    if not namespace:
        raise statuses.bad_request("no namespace on request")
    found = call.authorizer.rules_for(call.user, namespace)
    status: JSON = {
        "resourceRules": [
            _part(each, ("verbs", "apiGroups", "resources", "resourceNames"))
            for each in found.rules
            if each.get("resources")
        ],
        "nonResourceRules": [
            _part(each, ("verbs", "nonResourceURLs"))
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


RULES_REVIEWS: Final = kind_of("authorization.k8s.io/v1/selfsubjectrulesreviews")
RULES_STORAGE: Final = RESTStorage(RULES_REVIEWS.resource, create=_review_rules)


# Reviews of tokens

_INVALID: Final = "invalid bearer token"


def _status(call: Call, token: str, wanted: Sequence[str]) -> JSON:
    """Return the status for a token that is meant for one of the `wanted` audiences."""
    try:
        found = call.tokens.identify(token)
    except security.TokenError as error:
        return _refused(f"[{_INVALID}, {error}]")
    if found is None:
        return _refused(_INVALID)
    audiences = [each for each in wanted if each in found.audiences]
    if not audiences:
        why = (
            f"token audiences {quoted(found.audiences)} is invalid for the target "
            f"audiences {quoted(wanted)}"
        )
        return _refused(f"[{_INVALID}, {why}]")
    return {
        "authenticated": True,
        "user": found.user.as_json(),
        "audiences": audiences,
    }


def _refused(error: str) -> JSON:
    return {"user": {}, "error": error}


def _review_token(call: Call, obj: JSON) -> JSON:
    """Return the review with its status; raises Refusal without a token."""
    spec = obj.get("spec") or {}
    if not spec.get("token"):
        message = "token is required for TokenReview in authentication"
        raise bad_request(message)
    wanted = spec.get("audiences") or [security.AUDIENCE]
    return reviewed(call, obj, _status(call, spec["token"], wanted))


TOKEN_REVIEWS: Final = kind_of("authentication.k8s.io/v1/tokenreviews")
TOKEN_STORAGE: Final = RESTStorage(TOKEN_REVIEWS.resource, create=_review_token)

# Reviews of users (``kubectl auth whoami``)


def _show_user(call: Call, obj: JSON) -> JSON:
    return {
        "kind": call.kind.kind,
        "apiVersion": call.kind.api_version,
        "metadata": {
            **obj.get("metadata", {}),
            "creationTimestamp": format_time(call.objects.clock.now()),
        },
        "status": {"userInfo": call.user.as_json()},
    }


SELF_SUBJECT_REVIEWS: Final = kind_of("authentication.k8s.io/v1/selfsubjectreviews")
SELF_SUBJECT_STORAGE: Final = RESTStorage(
    SELF_SUBJECT_REVIEWS.resource, create=_show_user
)

# Impersonation

_ACCOUNT: Final = "system:serviceaccount:"
_VERB: Final = "impersonate"
_USER: Final = "impersonate-user"
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"


def impersonates(headers: Mapping[str, str]) -> bool:
    """Tell whether a request names another user."""
    return any(each.startswith("impersonate-") for each in headers)


def account_of(name: str) -> tuple[str, str] | None:
    """Return namespace and name if the user is a service account, else `None`.

    Upstream: SplitUsername of apiserver/pkg/authentication/serviceaccount.
    """
    namespace, separator, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or not separator:
        return None
    if not is_label(namespace) or subdomain_problems(account):
        return None
    return namespace, account


def impersonated(
    user: security.User, headers: Mapping[str, str], authorizer: security.Authorizer
) -> security.User:
    """Return the user that the Impersonate headers name, `user` without them.

    The values of a header stand in lines. The groups are added that the wanted user
    would have. Raises Refusal 400 for headers without a user, and 403 if `user` lacks
    the permission for the name, the uid, a group or an extra that the headers name.
    """
    wanted = _wanted(headers)
    if wanted is None:
        return user
    for attributes in _parts(wanted):
        authorizer.check(user, attributes)
    groups = wanted.groups
    if account := account_of(wanted.name):
        groups = groups or security.account_groups(account[0])
    if wanted.name == security.ANONYMOUS.name:
        groups = (*groups, security.UNAUTHENTICATED)
    elif security.UNAUTHENTICATED not in groups:
        groups = (*groups, security.AUTHENTICATED)
    return replace(wanted, groups=tuple(dict.fromkeys(groups)))


def _parts(wanted: security.User) -> Iterator[security.Attributes]:
    """Yield the parts of a user; each needs the permission to impersonate it."""
    if account := account_of(wanted.name):
        namespace, name = account
        yield security.Attributes(
            _VERB, resource="serviceaccounts", namespace=namespace, name=name
        )
    else:
        yield security.Attributes(_VERB, resource="users", name=wanted.name)
    about = security.Attributes(_VERB, group="authentication.k8s.io")
    if wanted.uid:
        yield replace(about, resource="uids", name=wanted.uid)
    for group in wanted.groups:
        yield security.Attributes(_VERB, resource="groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield replace(about, resource="userextras", subresource=key, name=value)


def _wanted(headers: Mapping[str, str]) -> security.User | None:
    """Return the user as the headers name it; raises Refusal 400."""
    extra = {key: tuple(values) for key, values in _extras(headers)}
    groups = tuple(_values(headers, "impersonate-group"))
    wanted = security.User(headers.get(_USER, ""), headers.get(_UID, ""), groups, extra)
    if wanted.name:
        return wanted
    if wanted.uid or wanted.groups or extra:
        message = f"requested {_in_go(wanted)} without impersonating a user name"
        raise bad_request(message)
    return None


def _extras(headers: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    for header in sorted(each for each in headers if each.startswith(_EXTRA)):
        yield unquote(header.removeprefix(_EXTRA)), _values(headers, header)


def _values(headers: Mapping[str, str], name: str) -> list[str]:
    return headers[name].split("\n") if name in headers else []


def _in_go(user: security.User) -> str:
    """Return a user as Go's ``%#v`` prints it."""
    groups, extra = "[]string(nil)", "map[string][]string(nil)"
    if user.groups:
        groups = _slice(user.groups)
    if user.extra:
        pairs = (f"{shown(key)}:{_slice(each)}" for key, each in user.extra.items())
        extra = f"map[string][]string{{{', '.join(pairs)}}}"
    return (
        f'&user.DefaultInfo{{Name:"", UID:{shown(user.uid)}, Groups:{groups}, '
        f"Extra:{extra}}}"
    )


def _slice(texts: tuple[str, ...]) -> str:
    return f"[]string{{{', '.join(map(shown, texts))}}}"
