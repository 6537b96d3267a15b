"""Reviews of users and of tokens, and impersonation of another user.

Upstream: k8s.io/apiserver/pkg/endpoints/filters/impersonation, with the old mode alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver import security
from controller_manager.devcluster.apiserver.objects import Call, RESTStorage
from controller_manager.devcluster.scheme.names import is_label, subdomain_problems
from controller_manager.devcluster.scheme.statuses import bad_request, shown

from .authorization import reviewed
from .kinds import kind_of
from .rbac.authorizer import quoted

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


TOKEN_REVIEWS: Final = kind_of(
    "authentication.k8s.io/v1",
    "tokenreviews",
)
TOKEN_STORAGE: Final = RESTStorage(TOKEN_REVIEWS.resource, create=_review_token)

# Reviews of users (``kubectl auth whoami``)


def _review_self(call: Call, obj: JSON) -> JSON:
    return {
        "kind": call.kind.kind,
        "apiVersion": call.kind.api_version,
        "metadata": {
            **obj.get("metadata", {}),
            "creationTimestamp": format_time(call.objects.clock.now()),
        },
        "status": {"userInfo": call.user.as_json()},
    }


SELF_REVIEWS: Final = kind_of(
    "authentication.k8s.io/v1",
    "selfsubjectreviews",
)
SELF_STORAGE: Final = RESTStorage(SELF_REVIEWS.resource, create=_review_self)

# Impersonation

_ACCOUNT: Final = "system:serviceaccount:"
_AUTHENTICATION: Final = "authentication.k8s.io"
_VERB: Final = "impersonate"
_PREFIX: Final = "impersonate-"
_USER: Final = "impersonate-user"
_GROUP: Final = "impersonate-group"
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"


def impersonates(headers: Mapping[str, str]) -> bool:
    """Tell whether a request names another user."""
    return any(each.startswith(_PREFIX) for each in headers)


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
    about = security.Attributes(_VERB, group=_AUTHENTICATION)
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
    groups = tuple(_values(headers, _GROUP))
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
