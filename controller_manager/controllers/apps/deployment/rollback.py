"""The rollback annotation, what is left of extensions/v1beta1 (rollback.go).

``kubectl rollout undo`` itself patches the template; this serves clients that
set ``deprecated.deployment.rollback.to``.
"""

from typing import Any, Final

import msgspec

from controller_manager.api.apps.v1 import POD_TEMPLATE_HASH, Deployment, ReplicaSet
from controller_manager.api.meta import annotations_of
from controller_manager.controllers.apps.deployment.revisions import (
    NOT_COPIED,
    ROLLBACK_TO,
    Rollout,
    last_revision,
    revision_of,
)

DONE_REASON: Final = "DeploymentRollback"
NOT_FOUND_REASON: Final = "DeploymentRollbackRevisionNotFound"
UNCHANGED_REASON: Final = "DeploymentRollbackTemplateUnchanged"


def requested_revision(deployment: Deployment) -> int | None:
    """Return the revision asked for, 0 for the last one, `None` for none."""
    text = annotations_of(deployment.metadata).get(ROLLBACK_TO)
    if text is None or not text.isdecimal():
        return None
    return int(text)


def target_of(rollout: Rollout, revision: int) -> ReplicaSet | None:
    """Return the replica set of that revision (0: of the last one)."""
    wanted = revision or last_revision(rollout.all)
    if wanted == 0:
        return None
    return next(
        (each for each in rollout.all if revision_of(each.metadata) == wanted), None
    )


def without_request(deployment: dict[str, Any]) -> dict[str, Any]:
    """Return the deployment's JSON with the annotation taken out."""
    metadata = dict(deployment["metadata"])
    metadata["annotations"] = {
        key: value
        for key, value in metadata.get("annotations", {}).items()
        if key != ROLLBACK_TO
    }
    return {**deployment, "metadata": metadata}


def rolled_back(deployment: dict[str, Any], target: ReplicaSet) -> dict[str, Any]:
    """Return the deployment's JSON with the template of `target`.

    Annotations of that revision come back too, such as its change-cause.
    """
    cleared = without_request(deployment)
    kept = {
        key: value
        for key, value in cleared["metadata"]["annotations"].items()
        if key in NOT_COPIED
    }
    restored = {
        key: value
        for key, value in annotations_of(target.metadata).items()
        if key not in NOT_COPIED
    }
    template = msgspec.json.decode(msgspec.json.encode(target.spec.template))
    template["metadata"]["labels"].pop(POD_TEMPLATE_HASH, None)
    metadata = {**cleared["metadata"], "annotations": {**kept, **restored}}
    spec = {**cleared["spec"], "template": template}
    return {**cleared, "metadata": metadata, "spec": spec}
