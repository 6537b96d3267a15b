"""Impersonation: a request that is carried out as another user.

Upstream: k8s.io/apiserver/pkg/endpoints/filters/impersonation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from controller_manager.devcluster.server.authentication import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    account_groups,
)
from controller_manager.devcluster.server.authorization import Attributes, Authorizer
from controller_manager.devcluster.server.names import is_label, subdomain_problems
from controller_manager.devcluster.server.statuses import bad_request

_USER: Final = "impersonate-user"
_GROUP: Final = "impersonate-group"
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"
_ACCOUNT: Final = "system:serviceaccount:"
_AUTHENTICATION: Final = "authentication.k8s.io"
_AUTHENTICATION_V1: Final = "authentication.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class _Wish:
    """One thing that a request wants to be: it needs a permission of its own.

    The fields are those of the ObjectReference that upstream makes of it.
    """

    kind: str
    name: str
    namespace: str = ""
    version: str = ""
    key: str = ""

    def __str__(self) -> str:
        """Return what Go's ``%v`` prints of the reference."""
        parts = [self.kind, self.namespace, self.name, "", self.version, "", self.key]
        return f"{{{' '.join(parts)}}}"

    def attributes(self) -> Attributes:
        """Return what the user of the request must be allowed to do."""
        resource = _RESOURCES[self.kind]
        return Attributes(
            "impersonate",
            group=_AUTHENTICATION if self.version else "",
            resource=resource,
            subresource=self.key,
            namespace=self.namespace,
            name=self.name,
        )


_RESOURCES: Final = {
    "ServiceAccount": "serviceaccounts",
    "User": "users",
    "Group": "groups",
    "UserExtra": "userextras",
    "UID": "uids",
}


def impersonated(
    user: User, headers: Mapping[str, str], authorizer: Authorizer
) -> User:
    """Return the user that the Impersonate headers name, `user` without them.

    The values of a header stand in lines. Raises Refusal 400 for headers without a
    user, and 403 if `user` may not impersonate all that they name.
    """
    if not any(each.startswith("impersonate-") for each in headers):
        return user
    wishes = list(_wishes(headers))
    if not wishes:
        return user
    if wishes[0].kind not in ("User", "ServiceAccount"):
        listed = " ".join(map(str, wishes))
        message = f"requested [{listed}] without impersonating a user"
        raise bad_request(message)
    for each in wishes:
        authorizer.check(user, each.attributes())
    return _user_of(headers[_USER], wishes)


def _wishes(headers: Mapping[str, str]) -> Iterator[_Wish]:
    """Yield what the headers ask for, the user first."""
    if name := headers.get(_USER, ""):
        account = account_of(name)
        if account is None:
            yield _Wish("User", name)
        else:
            yield _Wish("ServiceAccount", account[1], account[0])
    for group in _values(headers, _GROUP):
        yield _Wish("Group", group)
    for header in sorted(each for each in headers if each.startswith(_EXTRA)):
        key = unquote(header.removeprefix(_EXTRA))
        for value in _values(headers, header):
            yield _Wish("UserExtra", value, version=_AUTHENTICATION_V1, key=key)
    if uid := headers.get(_UID, ""):
        yield _Wish("UID", uid, version=_AUTHENTICATION_V1)


def _values(headers: Mapping[str, str], name: str) -> list[str]:
    return headers[name].split("\n") if name in headers else []


def account_of(name: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account that a user is, if it is one.

    Upstream: SplitUsername of apiserver/pkg/authentication/serviceaccount.
    """
    namespace, separator, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or not separator:
        return None
    if not is_label(namespace) or subdomain_problems(account):
        return None
    return namespace, account


def _user_of(name: str, wishes: list[_Wish]) -> User:
    groups = [each.name for each in wishes if each.kind == "Group"]
    account = account_of(name)
    if account is not None and not groups:
        groups = list(account_groups(account[0]))
    if name == ANONYMOUS.name:
        if UNAUTHENTICATED not in groups:
            groups.append(UNAUTHENTICATED)
    elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    extra: dict[str, tuple[str, ...]] = {}
    for each in wishes:
        if each.kind == "UserExtra":
            extra[each.key] = (*extra.get(each.key, ()), each.name)
    uid = next((each.name for each in wishes if each.kind == "UID"), "")
    return User(name, uid, tuple(groups), extra)
