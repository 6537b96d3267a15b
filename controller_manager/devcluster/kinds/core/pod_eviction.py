"""The subresource ``eviction``: deletes a pod."""

from typing import Any

from controller_manager.devcluster.server.call import Call
from controller_manager.devcluster.server.deletion import Deletion
from controller_manager.devcluster.server.statuses import success

JSON = dict[str, Any]


def eviction(call: Call, body: JSON) -> JSON:
    """Delete a pod with the options of an Eviction; raises Refusal."""
    options = Deletion.parse(body.get("deleteOptions") or {}, {})
    dry_run = call.dry_run or options.dry_run
    call.objects.delete(call.kind, call.namespace, call.name, options, dry_run=dry_run)
    return success(201)
