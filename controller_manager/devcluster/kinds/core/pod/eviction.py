"""The subresource ``eviction``: deletes a pod if its disruption budget allows it."""

from dataclasses import replace

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.kinds.policy.disruptions import (
    find_budgets,
    take_disruption,
)
from controller_manager.devcluster.scheme.statuses import Refusal, bad_request, success
from controller_manager.devcluster.server.registry.rest_storage import Call
from controller_manager.devcluster.server.registry.store import check_deletion
from controller_manager.devcluster.server.rest.deletion import Deletion


def eviction(call: Call, body: JSON) -> JSON:
    """Delete a pod with the options of an Eviction; raises Refusal."""
    if body.get("metadata", {}).get("name") != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = Deletion.parse(body.get("deleteOptions") or {}, {})
    dry_run = call.dry_run or options.dry_run
    pod = call.objects.find(call.kind, call.namespace, call.name).obj
    check_deletion(call.kind, pod, options)
    if not _is_unguarded(pod):
        _ask_budget(call, pod, dry_run=dry_run)
    if not dry_run:
        _mark_disrupted(call, pod)
        options = replace(options, resource_version="")  # the mark is a new version
    call.objects.delete(call.kind, call.namespace, call.name, options, dry_run=dry_run)
    return success(201)


def _is_unguarded(pod: JSON) -> bool:
    """Tell whether no budget can forbid the eviction of a pod."""
    phase = pod.get("status", {}).get("phase")
    return "deletionTimestamp" in pod["metadata"] or phase in (
        "Succeeded",
        "Failed",
        "Pending",
    )


def _ask_budget(call: Call, pod: JSON, *, dry_run: bool) -> None:
    """Take one disruption from the budget of a pod, if it has one; raises Refusal."""
    budgets = find_budgets(call.objects.storage, pod)
    if len(budgets) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction "
            "subresource does not support."
        )
        raise Refusal(500, "", message)
    for budget in budgets:
        take_disruption(call.objects, budget, pod, dry_run=dry_run)


def _mark_disrupted(call: Call, pod: JSON) -> None:
    """Add the condition DisruptionTarget to the status of a pod."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(call.objects.clock.now()),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = pod.get("status", {})
    others = []
    for each in status.get("conditions", []):
        if each["type"] != condition["type"]:
            others.append(each)
        elif each["status"] == condition["status"]:
            condition["lastTransitionTime"] = each.get("lastTransitionTime")
    marked = {**pod, "status": {**status, "conditions": [*others, condition]}}
    call.objects.put(call.kind, (call.namespace, call.name), marked)
