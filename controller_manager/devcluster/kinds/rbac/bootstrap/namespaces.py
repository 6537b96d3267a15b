"""Roles in the namespaces of the system (namespace_policy.go)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON

from .components import MANAGER
from .policy import READ, account, local_binding, role, rule, user

_SYSTEM: Final = "kube-system"
_READER: Final = "extension-apiserver-authentication-reader"
_CLOUD_PROVIDER: Final = "system:controller:cloud-provider"
_LOCKING: Final = "system::leader-locking-"
_LEASES: Final = "create get list update watch"


def roles_of_namespaces() -> Iterator[JSON]:
    """Yield roles and bindings of components, without this project's controllers."""
    settings = "extension-apiserver-authentication"
    yield role(_SYSTEM, _READER, rule(READ, "core", "configmaps", settings))
    readers = [user(MANAGER), user("system:kube-scheduler")]
    yield local_binding(_SYSTEM, f"system::{_READER}", readers, _READER)
    configs = rule(f"create {READ}", "core", "configmaps")
    yield role(_SYSTEM, _CLOUD_PROVIDER, configs)
    yield local_binding(_SYSTEM, _CLOUD_PROVIDER, [account("cloud-provider")])
    yield from _roles_of_leaders()


def _roles_of_leaders() -> Iterator[JSON]:
    for component, accounts in (
        ("kube-controller-manager", ("leader-election-controller",)),
        ("kube-scheduler", ()),
    ):
        name = f"{_LOCKING}{component}"
        leases = rule(_LEASES, "coordination.k8s.io", "leases")
        candidates = rule(_LEASES, "coordination.k8s.io", "leasecandidates")
        yield role(_SYSTEM, name, leases, candidates)
        subjects = [account(each) for each in (component, *accounts)]
        yield local_binding(_SYSTEM, name, [user(f"system:{component}"), *subjects])
