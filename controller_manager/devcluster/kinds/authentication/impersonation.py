"""Impersonation: a request that is carried out as another user.

Upstream: k8s.io/apiserver/pkg/endpoints/filters/impersonation. Since 1.36 impersonation
may be constrained: a user may send certain requests as a certain user.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from controller_manager.devcluster.scheme.statuses import Refusal, bad_request, shown
from controller_manager.devcluster.server.security.authentication import User
from controller_manager.devcluster.server.security.authorization import (
    Attributes,
    Authorizer,
)

from .impersonation_modes import LEGACY, MODES

_PREFIX: Final = "impersonate-"
_USER: Final = "impersonate-user"
_GROUP: Final = "impersonate-group"
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"


def impersonates(headers: Mapping[str, str]) -> bool:
    """Tell whether a request names another user."""
    return any(each.startswith(_PREFIX) for each in headers)


def impersonated(
    user: User,
    headers: Mapping[str, str],
    attributes: Attributes,
    authorizer: Authorizer,
) -> User:
    """Return the user that the Impersonate headers name, `user` without them.

    The values of a header stand in lines. `attributes` are those of the request.
    Raises Refusal 400 for headers without a user, and 403 if no mode permits `user` to
    impersonate the user, the groups and the extra that the headers name.
    """
    wanted = _wanted(headers)
    if wanted is None:
        return user
    first: Refusal | None = None
    for mode in MODES:
        if not mode.applies(wanted, user):
            continue
        verb = f"impersonate-on:{mode.name}:{attributes.verb}"
        try:
            authorizer.check(user, replace(attributes, verb=verb))
            return mode.become(wanted, user, authorizer)
        except Refusal as refusal:
            first = first or refusal
    try:
        return LEGACY.become(wanted, user, authorizer)
    except Refusal as refusal:
        raise first or refusal from None


def _wanted(headers: Mapping[str, str]) -> User | None:
    """Return the user as the headers name it; raises Refusal 400."""
    extra = {key: tuple(values) for key, values in _extras(headers)}
    groups = tuple(_values(headers, _GROUP))
    wanted = User(headers.get(_USER, ""), headers.get(_UID, ""), groups, extra)
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


def _in_go(user: User) -> str:
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
