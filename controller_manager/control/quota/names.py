"""The names of the resources that quotas limit, and the objects that they count.

The names of counts are those of pkg/quota/v1/install/registry.go. Native names and
extended resources differ in what users may do with them; see
pkg/apis/core/v1/helper/helpers.go.
"""

from typing import Final

from controller_manager.api.core.resources import HUGE_PAGES_PREFIX

REQUESTS: Final = "requests."
LIMITS: Final = "limits."
PODS: Final = "pods"

_DEFAULT_NAMESPACE: Final = "kubernetes.io/"
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""The prefix of the extended resource that each device class has."""

_OLD_NAMES: Final = {
    ("", "configmaps"): "configmaps",
    ("", "replicationcontrollers"): "replicationcontrollers",
    ("", "resourcequotas"): "resourcequotas",
    ("", "secrets"): "secrets",
}
"""The older names of counts, from before the prefix ``count/``."""

_IGNORED: Final = frozenset(
    (
        ("", "bindings"),
        ("", "componentstatuses"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    )
)

_LONGEST_QUALIFIED: Final = 63


def count_name(plural: str, group: str) -> str:
    """Return the resource that counts objects: ``count/jobs.batch``, ``count/pods``."""
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def is_counted(group: str, plural: str) -> bool:
    """Tell whether quotas count the objects of a resource: not events and reviews."""
    return (group, plural) not in _IGNORED


def names_of_count(group: str, plural: str) -> tuple[str, ...]:
    """Return the names by which the objects of a resource are counted."""
    counted = count_name(plural, group)
    old = _OLD_NAMES.get((group, plural))
    return (counted,) if old is None else (counted, old)


def is_native(name: str) -> bool:
    """Tell whether a resource has no prefix, or that of Kubernetes."""
    return "/" not in name or _DEFAULT_NAMESPACE in name


def is_extended(name: str) -> bool:
    """Tell whether a container's resource is extended, as ``example.com/gpu``.

    Upstream: IsExtendedResourceName, and IsDRAExtendedResourceName for the resources
    that device classes have.
    """
    if name.startswith(DEVICE_CLASS_PREFIX):
        return True
    if is_native(name) or name.startswith(REQUESTS):
        return False
    return len(name.partition("/")[2]) <= _LONGEST_QUALIFIED


def limits_extended(name: str) -> bool:
    """Tell whether a quota's resource limits an extended one, as ``requests.a.b/gpu``.

    An extended resource cannot be overcommitted, so quotas limit only its requests.
    """
    if not name.startswith(REQUESTS):
        return False
    return not is_native(name) or name.startswith(REQUESTS + DEVICE_CLASS_PREFIX)


def limits_huge_pages(name: str) -> bool:
    """Tell whether a quota's resource limits huge pages."""
    return name.removeprefix(REQUESTS).startswith(HUGE_PAGES_PREFIX)
