"""The properties of the disruption controller."""

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.validation.values import selects
from tests.clusters import EPOCH
from tests.controllers.apps.disruption.workload import BudgetUsers
from tests.simulation.changes import Path, only
from tests.simulation.objects import controller_of, path_of
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_BUDGETS: Final = "poddisruptionbudgets"
_NUMBERS: Final = (
    "expectedPods",
    "desiredHealthy",
    "currentHealthy",
    "disruptionsAllowed",
)
_TIMEOUT: Final = timedelta(minutes=2)
_OLD: Final = timedelta(minutes=15)
"""The age of a pod that every cache shows, since no cache lags for longer."""

_by_server: Final = only()

_SCALED: Final = ("replicasets", "statefulsets", "replicationcontrollers")


def _takes_back_target(path: Path, old: Any, new: Any) -> bool:
    """Allow that the condition DisruptionTarget of a pod becomes false."""
    if path[:2] != ("status", "conditions"):
        return _by_server(path, old, new)
    if not isinstance(old, list) or not isinstance(new, list):
        return True
    others = [each for each in old if each["type"] != "DisruptionTarget"]
    return [each for each in new if each["type"] != "DisruptionTarget"] == others


class DisruptionProperties(Properties):
    """A budget allows as many evictions as its pods permit, and counts them."""

    controller = "disruption-controller"
    may_write = (
        AllowedWrite(("update",), f"{_BUDGETS}/status", only(("status",))),
        AllowedWrite(("patch",), "pods/status", _takes_back_target),
    )
    workload = BudgetUsers

    def after_write(self, write: Write) -> Iterator[str]:
        """Check each status that the controller writes."""
        if write.controller != self.controller or write.target.plural != _BUDGETS:
            return
        if write.before is None or write.after is None:
            return
        for problem in self._problems(write.before, write.after):
            yield f"{write}: {problem}"

    def _problems(self, before: JSON, after: JSON) -> Iterator[str]:
        status = after["status"]
        numbers = {name: status.get(name, 0) for name in _NUMBERS}
        spare = numbers["currentHealthy"] - numbers["desiredHealthy"]
        if not numbers["expectedPods"]:
            spare = 0
        (condition,) = status["conditions"]
        if condition["reason"] == "SyncFailed":
            if numbers["disruptionsAllowed"]:
                yield "a failure allows disruptions"
            return
        if numbers["disruptionsAllowed"] != max(0, spare):
            yield f"the numbers contradict each other: {numbers}"
        if (condition["status"] == "True") != (numbers["disruptionsAllowed"] > 0):
            yield f"the condition says {condition['reason']}: {numbers}"
        dropped = _evicted(before).keys() - _evicted(after).keys()
        for name in dropped:
            if self._still_counts(before, name):
                yield f"the eviction of {name} is forgotten"

    def _still_counts(self, budget: JSON, name: str) -> bool:
        """Tell whether a pod exists whose eviction was allowed a short time ago."""
        pod = self.state.find("pods", budget["metadata"]["namespace"], name)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return False
        now = EPOCH + timedelta(seconds=asyncio.get_running_loop().time())
        if now - parse_time(pod["metadata"]["creationTimestamp"]) < _OLD:
            return False
        # The manager's clock may be a few seconds ahead.
        left = parse_time(_evicted(budget)[name]) + _TIMEOUT - now
        return left > timedelta(seconds=10)

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that each status is that of a recount."""
        del managers
        for budget in self.state.stored(_BUDGETS):
            if "deletionTimestamp" in budget["metadata"]:
                continue
            found = _numbers_of(budget)
            counted = self._recount(budget)
            if counted is None and found["disruptionsAllowed"]:
                yield f"budget {path_of(budget)} cannot be counted, and allows {found}"
            if counted is not None and found != counted:
                yield f"budget {path_of(budget)}: {found}, a recount is {counted}"

    def end_state(self) -> JSON:
        """Return the specs that were observed; strangers may own some of the pods."""
        return {
            path_of(each): {
                "spec": each["spec"],
                "disruptedPods": _evicted(each),
            }
            for each in self.state.stored(_BUDGETS)
        }

    def _recount(self, budget: JSON) -> JSON | None:
        """Return the numbers of a budget, `None` if a stranger owns one of its pods."""
        namespace = budget["metadata"]["namespace"]
        spec = budget["spec"]
        pods = [
            each
            for each in self.state.stored("pods", namespace)
            if selects(spec.get("selector"), each["metadata"].get("labels", {}))
        ]
        expected: int | None = len(pods)
        if "minAvailable" not in spec and "maxUnavailable" not in spec:
            expected = 0
        elif not isinstance(spec.get("minAvailable"), int):
            expected = self._scale(namespace, pods)
        if expected is None:
            return None
        healthy = sum(map(_is_healthy, pods))
        desired = _desired(spec, expected)
        allowed = max(0, healthy - desired) if expected else 0
        counted = (expected, desired, healthy, allowed)
        return {
            **dict(zip(_NUMBERS, counted, strict=True)),
            "disruptedPods": {},
            "observed": True,
        }

    def _scale(self, namespace: str, pods: Iterable[JSON]) -> int | None:
        """Return the sum of the scales of owners, `None` if one is a stranger.

        Pods without an owner count for nothing.
        """
        owners = {
            each["metadata"]["uid"]: each
            for plural in ("deployments", *_SCALED)
            for each in self.state.stored(plural, namespace)
        }
        scales: dict[str, int] = {}
        for uid in {controller_of(each) for each in pods} - {""}:
            owner = owners.get(uid)
            if owner is None:
                return None
            owner = owners.get(controller_of(owner), owner)
            scales[owner["metadata"]["uid"]] = owner["spec"].get("replicas", 1)
        return sum(scales.values())


def _evicted(budget: JSON) -> dict[str, str]:
    found: dict[str, str] = budget.get("status", {}).get("disruptedPods") or {}
    return found


def _numbers_of(budget: JSON) -> JSON:
    status = budget.get("status", {})
    generation = budget["metadata"]["generation"]
    return {
        **{name: status.get(name, 0) for name in _NUMBERS},
        "disruptedPods": _evicted(budget),
        "observed": status.get("observedGeneration") == generation,
    }


def _is_healthy(pod: JSON) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = pod.get("status", {}).get("conditions", [])
    return any(
        (each["type"], each["status"]) == ("Ready", "True") for each in conditions
    )


def _desired(spec: JSON, expected: int) -> int:
    if "maxUnavailable" in spec:
        return max(0, expected - _pods(spec["maxUnavailable"], expected))
    return _pods(spec.get("minAvailable", 0), expected)


def _pods(limit: int | str, expected: int) -> int:
    if isinstance(limit, int):
        return limit
    return math.ceil(int(limit.removesuffix("%")) * expected / 100)


PROPERTIES = DisruptionProperties
