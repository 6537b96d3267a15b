"""Deliberate bugs of the quota controller."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.api.core.resources import ResourceQuota, ResourceQuotaStatus
from controller_manager.control.quota import evaluators, pods, resources
from controller_manager.control.quota.evaluators import NODE_PORTS
from controller_manager.control.quota.resources import Amounts, amounts, printed
from controller_manager.controllers.cluster.resourcequota import usage
from controller_manager.controllers.cluster.resourcequota.controller import (
    QuotaController,
)
from controller_manager.controllers.cluster.resourcequota.usage import Tally
from tests.simulation.planted import Bug

_service_usage = evaluators.service_usage


def _nothing(*_: Any) -> None:
    pass


def _for_any_type(service: Any) -> Amounts:
    number = amounts({"n": str(len(service.spec.ports or ()))})["n"]
    return {**_service_usage(service), NODE_PORTS: number}


def _always_write(quota: ResourceQuota, used: Amounts) -> ResourceQuotaStatus:
    return ResourceQuotaStatus(hard=quota.spec.hard, used=printed(used))


def _keep_all(values: Amounts, _: object) -> dict[str, Any]:
    return dict(values)


BUGS: Final[Mapping[str, Bug]] = {
    "charge pods that have ended": Bug(1, pods, "is_charged", lambda _, __: True),
    "miss deleted objects": Bug(
        0, QuotaController, "removed", _nothing, "counted-at-once"
    ),
    "count objects outside the scopes": Bug(
        0, usage, "requirements_of", lambda _: [], "counted-at-once"
    ),
    "miss other limits": Bug(
        0, usage, "limits_differ", lambda _, __: False, "counted-at-once"
    ),
    "keep the usage of a limit that is gone": Bug(
        0, resources, "masked", _keep_all, "counted-at-once"
    ),
    "write a status that is there": Bug(1, usage, "status_to_write", _always_write),
    "charge all services for node ports": Bug(
        1, evaluators, "service_usage", _for_any_type
    ),
    "count deleted objects": Bug(2, Tally, "gone", _nothing),
    "take back the charge of admitted objects": Bug(
        0, QuotaController, "added", _nothing, "admitted-before-it-is-seen"
    ),
}
