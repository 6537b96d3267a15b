"""Properties of the quota controller."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import ZERO, Quantity, parse_quantity
from tests.controllers.cluster.resourcequota.workload import QuotaUsers
from tests.simulation.changes import only
from tests.simulation.objects import path_of
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager

Amounts = dict[str, Quantity]

_ONE: Final = Quantity.of(1)
_OBJECTS: Final = {
    "secrets": "secrets",
    "configmaps": "configmaps",
    "services": "services",
    "persistentvolumeclaims": "persistentvolumeclaims",
    "replicationcontrollers": "replicationcontrollers",
    "resourcequotas": "resourcequotas",
}
"""The kinds that are counted by an old name."""


class ResourceQuotaProperties(Properties):
    """It writes the status of quotas, and their usage is what there is."""

    controller = "resourcequota-controller"
    may_write = (AllowedWrite(("update",), "resourcequotas/status", only(("status",))),)
    workload = QuotaUsers

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that each write changes something, and is about the limits."""
        if write.controller != self.controller or write.after is None:
            return
        status, spec = write.after["status"], write.after["spec"]
        if status.get("hard", {}) != spec.get("hard", {}):
            yield f"{write}: the status has other limits than the spec"
        if extra := status.get("used", {}).keys() - spec.get("hard", {}).keys():
            yield f"{write}: {sorted(extra)} have a usage and no limit"
        if write.before is not None and _amounts(write.before) == _amounts(write.after):
            yield f"{write}: nothing has changed"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Yield each quota whose usage is not what a recount finds."""
        del managers
        for quota in self.state.stored("resourcequotas"):
            hard, used = (quota["status"].get(each, {}) for each in ("hard", "used"))
            if hard != quota["spec"].get("hard", {}):
                yield f"{path_of(quota)}: the status shows the limits {hard}"
            for name, amount in used.items():
                found = self.counted(quota).get(name)
                if found is not None and found != parse_quantity(amount):
                    yield f"{path_of(quota)}: {name} is {found}, not {amount}"

    def counted(self, quota: JSON) -> Amounts:
        """Return what a namespace uses, as far as the simulation makes use of it."""
        namespace = quota["metadata"]["namespace"]
        scopes = quota["spec"].get("scopes", [])
        usage: Counter[str] = Counter()
        for plural, name in _OBJECTS.items():
            number = len(self.state.stored(plural, namespace))
            usage[name] = usage[f"count/{plural}"] = number
        usage["services.nodeports"] = sum(
            len(each["spec"]["ports"])
            for each in self.state.stored("services", namespace)
            if each["spec"].get("type") in ("NodePort", "LoadBalancer")
        )
        counted = {name: Quantity.of(number) for name, number in usage.items()}
        return counted | self._pods(namespace, scopes) | self._claims(namespace)

    def _pods(self, namespace: str, scopes: Sequence[str]) -> Amounts:
        pods = [
            pod
            for pod in self.state.stored("pods", namespace)
            if all(_is_in(scope, pod) for scope in scopes)
        ]
        usage = dict.fromkeys(("pods", "requests.cpu", "limits.memory"), ZERO)
        usage["count/pods"] = Quantity.of(len(pods))
        for pod in pods:
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            usage["pods"] += _ONE
            for container in pod["spec"]["containers"]:
                resources = container.get("resources", {})
                for group, name in (("requests", "cpu"), ("limits", "memory")):
                    amount = resources.get(group, {}).get(name, "0")
                    usage[f"{group}.{name}"] += parse_quantity(amount)
        return usage

    def _claims(self, namespace: str) -> Amounts:
        sizes = (
            each["spec"]["resources"]["requests"]["storage"]
            for each in self.state.stored("persistentvolumeclaims", namespace)
        )
        whole = (Quantity.of(parse_quantity(size).value) for size in sizes)
        return {"requests.storage": sum(whole, ZERO)}


def _is_in(scope: str, pod: JSON) -> bool:
    match scope:
        case "NotTerminating" | "Terminating":
            return ("activeDeadlineSeconds" in pod["spec"]) is (scope == "Terminating")
        case "BestEffort" | "NotBestEffort":
            is_best_effort = pod["status"].get("qosClass") == "BestEffort"
            return is_best_effort is (scope == "BestEffort")
    return True


def _amounts(quota: JSON) -> list[Amounts]:
    status = quota.get("status", {})
    return [
        {name: parse_quantity(text) for name, text in status.get(part, {}).items()}
        for part in ("hard", "used")
    ]


PROPERTIES = ResourceQuotaProperties
