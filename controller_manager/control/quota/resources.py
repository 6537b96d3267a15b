"""The resources that quotas limit: their names, and amounts by name.

The names of counts are those of pkg/quota/v1/install/registry.go. Native names and
extended resources differ in what users may do with them; see
pkg/apis/core/v1/helper/helpers.go. Amounts: apiserver pkg/quota/v1/resources.go.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller_manager.api.core.resources import HUGE_PAGES_PREFIX
from controller_manager.api.quantity import Quantity, parse_quantity

REQUESTS: Final = "requests."
LIMITS: Final = "limits."
PODS: Final = "pods"

DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""The prefix of the extended resource that each device class has."""

_OLD_NAMES: Final = (
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
)
"""Resources whose count has an older name, too, from before the prefix ``count/``."""

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


def count_name(plural: str, group: str) -> str:
    """Return the resource that counts objects: ``count/jobs.batch``, ``count/pods``."""
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def is_counted(group: str, plural: str) -> bool:
    """Tell whether quotas count the objects of a resource: not events and reviews."""
    return (group, plural) not in _IGNORED


def names_of_count(group: str, plural: str) -> tuple[str, ...]:
    """Return the names by which the objects of a resource are counted."""
    old = () if group or plural not in _OLD_NAMES else (plural,)
    return (count_name(plural, group), *old)


def is_native(name: str) -> bool:
    """Tell whether a resource has no prefix, or that of Kubernetes."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Tell whether a container's resource is extended, as ``example.com/gpu``.

    Upstream: IsExtendedResourceName, and IsDRAExtendedResourceName for the resources
    that device classes have.
    """
    if name.startswith(DEVICE_CLASS_PREFIX):
        return True
    if is_native(name) or name.startswith(REQUESTS):
        return False
    return len(name.partition("/")[2]) <= 63  # noqa: PLR2004 - of a qualified name


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


Amounts = Mapping[str, Quantity]
"""Quantities by the name of their resource; no function changes them."""

NOTHING: Final[Amounts] = {}


def amounts(texts: Mapping[str, str] | None) -> dict[str, Quantity]:
    """Return the parsed amounts of an object's texts.

    Raises QuantityError for an invalid quantity.
    """
    return {name: parse_quantity(text) for name, text in (texts or {}).items()}


def printed(values: Amounts) -> dict[str, str]:
    """Return amounts in canonical form, sorted by name."""
    return {name: str(values[name]) for name in sorted(values)}


def added(first: Amounts, second: Amounts) -> dict[str, Quantity]:
    """Return the sum of each resource."""
    total = dict(first)
    for name, amount in second.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def larger(values: Iterable[Amounts]) -> dict[str, Quantity]:
    """Return the largest amount of each resource."""
    largest: dict[str, Quantity] = {}
    for each in values:
        for name, amount in each.items():
            if name not in largest or amount > largest[name]:
                largest[name] = amount
    return largest


def masked(values: Amounts, names: Collection[str]) -> dict[str, Quantity]:
    """Return the amounts of these resources only."""
    return {name: each for name, each in values.items() if name in names}
