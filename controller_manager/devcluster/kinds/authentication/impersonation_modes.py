"""The modes of impersonation: the users that they apply to, and their permissions.

Upstream: mode.go of k8s.io/apiserver/pkg/endpoints/filters/impersonation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller_manager.devcluster.scheme.names import is_label, subdomain_problems
from controller_manager.devcluster.server.security.authentication import (
    ANONYMOUS,
    AUTHENTICATED,
    NODE_NAME,
    UNAUTHENTICATED,
    User,
    account_groups,
)
from controller_manager.devcluster.server.security.authorization import (
    MASTERS,
    Attributes,
    Authorizer,
    refusal_of,
)
from controller_manager.devcluster.validation.domain_paths import (
    validate_domain_prefixed_path,
)

_ACCOUNT: Final = "system:serviceaccount:"
_NODE: Final = "system:node:"
_NODES: Final = "system:nodes"
_GROUP: Final = "authentication.k8s.io"
_MANY: Final = 4
"""From this number of groups or extras on, a permission for all is tried first."""


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


def node_of(name: str) -> str:
    """Return the name of the node if the user is a node, else ""."""
    node = name.removeprefix(_NODE)
    return "" if not name.startswith(_NODE) or subdomain_problems(node) else node


def _names_only(wanted: User) -> bool:
    return not (wanted.uid or wanted.groups or wanted.extra)


def _is_own_node(wanted: User, user: User) -> bool:
    """Tell whether a service account wants to be the node that its pod runs on."""
    node = node_of(wanted.name)
    found = user.extra.get(NODE_NAME, ())
    is_bound = bool(node) and account_of(user.name) is not None and found == (node,)
    return is_bound and _names_only(wanted)


def _is_node(wanted: User, _: User) -> bool:
    return bool(node_of(wanted.name)) and _names_only(wanted)


def _is_account(wanted: User, _: User) -> bool:
    return account_of(wanted.name) is not None and _names_only(wanted)


def _is_other(wanted: User, _: User) -> bool:
    return not node_of(wanted.name) and account_of(wanted.name) is None


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode of impersonation; the old mode, without limits, has no name.

    `applies` tells whether the mode is for a wanted user and the user of the request.
    """

    name: str
    applies: Callable[[User, User], bool]

    def become(self, wanted: User, user: User, authorizer: Authorizer) -> User:
        """Return the wanted user, with the groups that it has; raises Refusal 403."""
        check = _Check(self.name, user, authorizer)
        groups = check.name(wanted)
        check.uid(wanted.uid)
        check.groups(wanted.groups)
        check.extras(wanted.extra)
        if wanted.name == ANONYMOUS.name:
            groups = (*groups, UNAUTHENTICATED)
        elif UNAUTHENTICATED not in groups:
            groups = (*groups, AUTHENTICATED)
        return replace(wanted, groups=tuple(dict.fromkeys(groups)))


MODES: Final = (
    Mode("associated-node", _is_own_node),
    Mode("arbitrary-node", _is_node),
    Mode("serviceaccount", _is_account),
    Mode("user-info", _is_other),
)
"""The constrained modes, in the order in which they are tried."""

LEGACY: Final = Mode("", lambda _, __: True)


class _Check:
    """Checks the parts of a wanted user: each part needs its own permission."""

    def __init__(self, mode: str, user: User, authorizer: Authorizer) -> None:
        self._mode = mode
        self._verb = f"impersonate:{mode}" if mode else "impersonate"
        self._user = user
        self._authorizer = authorizer

    def name(self, wanted: User) -> tuple[str, ...]:
        """Check the name; return the groups, with those that follow from the name."""
        attributes = self._about("users", wanted.name, core=not self._mode)
        groups = wanted.groups
        if self._mode and (node := node_of(wanted.name)):
            name = "*" if self._mode == "associated-node" else node
            attributes = replace(attributes, resource="nodes", name=name)
            groups = (_NODES,)
        if account := account_of(wanted.name):
            namespace, name = account
            attributes = replace(
                attributes, resource="serviceaccounts", namespace=namespace, name=name
            )
            groups = groups or account_groups(namespace)
        self._check(attributes)
        return groups

    def uid(self, uid: str) -> None:
        """Check the uid, if there is one."""
        if uid:
            self._check(self._about("uids", uid))

    def groups(self, groups: Sequence[str]) -> None:
        """Check the groups; constrained modes refuse the group of administrators."""
        about = self._about("groups", "", core=not self._mode)
        if self._mode:
            if "" in groups:
                self._refuse(about, "impersonating the empty string group")
            if MASTERS in groups:
                masters = replace(about, name=MASTERS)
                self._refuse(masters, f"impersonating the {MASTERS} group")
            if len(groups) >= _MANY and self._allows(replace(about, name="*")):
                return
        for group in groups:
            self._check(replace(about, name=group))

    def extras(self, extra: Mapping[str, Sequence[str]]) -> None:
        """Check each value of the extra, by its key."""
        about = self._about("userextras", "")
        if self._mode and extra:
            for key, values in extra.items():
                if wrong := _wrong_extra(key, values):
                    raise refusal_of(self._user, about, wrong)
            every = replace(about, subresource="*", name="*")
            is_large = sum(map(len, extra.values())) >= _MANY
            if is_large and self._allows(every):
                return
        for key, values in extra.items():
            for value in values:
                self._check(replace(about, subresource=key, name=value))

    def _about(self, resource: str, name: str, *, core: bool = False) -> Attributes:
        group = "" if core else _GROUP
        return Attributes(self._verb, group=group, resource=resource, name=name)

    def _check(self, attributes: Attributes) -> None:
        self._authorizer.check(self._user, attributes)

    def _allows(self, attributes: Attributes) -> bool:
        return self._authorizer.allows(self._user, attributes)

    def _refuse(self, attributes: Attributes, what: str) -> None:
        raise refusal_of(self._user, attributes, f"{what} is not allowed")


def _wrong_extra(key: str, values: Sequence[str]) -> str:
    """Return why a constrained mode refuses an extra, "" if it accepts the extra."""
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    if validate_domain_prefixed_path(key, ""):
        return (
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid "
            f'value: "{key}": must be a domain-prefixed path (such as "acme.io/foo")'
        )
    if key != key.lower():
        return f'impersonating a non-lowercase key in extra is not allowed: "{key}"'
    if "" in values:
        return "impersonating the empty string value in extra is not allowed"
    return ""
