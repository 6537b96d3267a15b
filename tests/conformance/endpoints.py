"""The endpoints of services, in the second form of recordings.

Upstream keeps them in sets, so their order differs from run to run. A recording that
says `pack` also spreads the endpoints over the slices at random: of each slice only
the number of its endpoints counts, and all endpoints together are shown as one more
slice.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON

TRIGGER: Final = "endpoints.kubernetes.io/last-change-trigger-time"
EVERY: Final = "EVERY"
"""The name of the slice that shows all endpoints together."""

_CROWD: Final = 50
"""Of more endpoints than these, only the number of those that are alike is shown."""


def in_order(kind: str, obj: JSON) -> JSON:
    """Return an object with all that is a set in order; other kinds are unchanged."""
    return _ORDERS[kind](obj) if kind in _ORDERS else obj


def _slice_in_order(endpoint_slice: JSON) -> JSON:
    """Return a slice in order; whether its name is generated differs, too."""
    metadata = {**endpoint_slice["metadata"]}
    metadata.pop("generateName", None)
    return {
        **endpoint_slice,
        "metadata": metadata,
        "ports": _sorted(endpoint_slice.get("ports"), _name),
        "endpoints": _sorted(endpoint_slice.get("endpoints"), _addresses),
    }


def _endpoints_in_order(endpoints: JSON) -> JSON:
    subsets = [
        {
            **each,
            **{
                name: _sorted(each[name], _ip_or_port)
                for name in ("addresses", "notReadyAddresses", "ports")
                if name in each
            },
        }
        for each in endpoints.get("subsets") or []
    ]
    return {**endpoints, "subsets": _sorted(subsets, lambda each: each.get("ports"))}


_ORDERS: Final[Mapping[str, Callable[[JSON], JSON]]] = {
    "EndpointSlice": _slice_in_order,
    "Endpoints": _endpoints_in_order,
}


def _sorted(items: list[JSON] | None, key: Callable[[JSON], Any]) -> list[JSON]:
    return sorted(items or [], key=lambda each: _text([key(each), each]))


def _name(port: JSON) -> Any:
    return port.get("name")


def _addresses(endpoint: JSON) -> list[Any]:
    return [endpoint.get("addresses"), endpoint.get("targetRef")]


def _ip_or_port(item: JSON) -> Any:
    return item.get("ip", item.get("port"))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def packed(lists: Mapping[str, list[JSON]]) -> dict[str, list[JSON]]:
    """Return the lists of objects without what chance decides; see above.

    Times at which a change was triggered are left out.
    """
    slices = [_without_trigger_time(each) for each in lists.get("EndpointSlice", [])]
    endpoints = [_without_trigger_time(each) for each in lists.get("Endpoints", [])]
    every = [each for one in slices for each in one.get("endpoints") or []]
    return {
        **lists,
        "Endpoints": [_crowded(each) for each in endpoints],
        "EndpointSlice": [*map(_counted, slices), *_together(every)],
    }


def _without_trigger_time(obj: JSON) -> JSON:
    """Return Endpoints or a slice without the time of the change that it shows."""
    metadata = {**obj["metadata"]}
    annotations = {**(metadata.pop("annotations", None) or {})}
    annotations.pop(TRIGGER, None)
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "metadata": metadata}


def _counted(endpoint_slice: JSON) -> JSON:
    number = len(endpoint_slice.get("endpoints") or [])
    return {**endpoint_slice, "endpoints": [{"addresses": [f"{number} endpoints"]}]}


def _together(every: list[JSON]) -> Iterable[JSON]:
    if every:
        endpoints = _crowd(every, lambda number: {"addresses": [f"{number} of them"]})
        yield {"metadata": {"name": EVERY}, "endpoints": endpoints}


def _crowded(endpoints: JSON) -> JSON:
    subsets = [
        {
            **each,
            **{
                name: _crowd(each[name], lambda number: {"ip": f"{number} of them"})
                for name in ("addresses", "notReadyAddresses")
                if each.get(name)
            },
        }
        for each in endpoints.get("subsets") or []
    ]
    return {**endpoints, "subsets": subsets}


def _crowd(items: list[JSON], shown: Callable[[int], JSON]) -> list[JSON]:
    """Return items, or how many are alike if they are too many to show."""
    if len(items) <= _CROWD:
        return items
    own = ("ip", "addresses", "targetRef")
    like = Counter(
        _text({name: each for name, each in item.items() if name not in own})
        for item in items
    )
    return [{**json.loads(text), **shown(number)} for text, number in like.items()]
