"""Compares objects with the limits of a LimitRange (plugin/pkg/admission/limitranger).

All texts are upstream's; amounts are printed as they are written in the objects.
"""

from collections.abc import Callable, Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import Quantity
from controller_manager.control.quota.resources import Amounts, amounts

_Constraint = Callable[[str, str, Quantity, Amounts, Amounts], str]

_MOST: Final = 2**63 - 1
_MOST_MILLI: Final = _MOST // 1000
"""Larger amounts are compared in whole numbers (resource.MaxMilliValue)."""


def exceeded_limits(limit: JSON, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Yield why requests and limits violate an item of a LimitRange."""
    for field, check in _CONSTRAINTS:
        for name, enforced in sorted(amounts(limit.get(field)).items()):
            if why := check(limit["type"], name, enforced, requests, limits):
                yield why


def exceeded_by_claim(limit: JSON, requests: Amounts) -> Iterator[str]:
    """Yield why the requests of a volume claim violate an item of a LimitRange."""
    for name, enforced in sorted(amounts(limit.get("min")).items()):
        if why := _below_min(limit["type"], name, enforced, requests, {}):
            yield why
    for name, enforced in sorted(amounts(limit.get("max")).items()):
        about = f"maximum {name} usage per {limit['type']} is {enforced}"
        request = requests.get(name)
        if request is None:
            yield f"{about}.  No request is specified"
        elif request > enforced:
            yield f"{about}, but request is {request}"


def _below_min(
    kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> str:
    about = f"minimum {name} usage per {kind} is {enforced}"
    request, limit = requests.get(name), limits.get(name)
    if request is None:
        return f"{about}.  No request is specified"
    if request < enforced:
        return f"{about}, but request is {request}"
    if limit is not None and limit < enforced:
        return f"{about}, but limit is {limit}"
    return ""


def _above_max(
    kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> str:
    about = f"maximum {name} usage per {kind} is {enforced}"
    request, limit = requests.get(name), limits.get(name)
    if limit is None:
        return f"{about}.  No limit is specified"
    if limit > enforced:
        return f"{about}, but limit is {limit}"
    if request is not None and request > enforced:
        return f"{about}, but request is {request}"
    return ""


def _above_ratio(
    kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> str:
    about = f"{name} max limit to request ratio per {kind} is {enforced}"
    request, limit = requests.get(name), limits.get(name)
    if request is None or request.is_zero:
        return f"{about}, but no request is specified or request is 0"
    if limit is None or limit.is_zero:
        return f"{about}, but no limit is specified or limit is 0"
    if max(each.value for each in (request, limit, enforced)) <= _MOST_MILLI:
        ratio = limit.milli_value / request.milli_value
    else:
        ratio = min(limit.value, _MOST) / min(request.value, _MOST)
    if enforced.value > _MOST_MILLI:
        is_above = ratio > enforced.value
    else:
        is_above = ratio * 1000 > enforced.milli_value
    return f"{about}, but provided ratio is {ratio:f}" if is_above else ""


_CONSTRAINTS: Final[tuple[tuple[str, _Constraint], ...]] = (
    ("min", _below_min),
    ("max", _above_max),
    ("maxLimitRequestRatio", _above_ratio),
)
