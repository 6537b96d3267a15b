"""The bodies of a stateful set's new pods.

Upstream: newStatefulSetPod and newVersionedStatefulSetPod of stateful_set_utils.go.
"""

import msgspec

from controller_manager.api.apps.v1 import STATEFUL_SETS, StatefulSet
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.json_objects import JSON
from controller_manager.api.owners import controller_reference
from controller_manager.control.history.names import POD_REVISION_LABEL

from .identity import claim_name, claim_templates, identity_labels, pod_name


def pod_body(
    stateful_set: StatefulSet, template: PodTemplateSpec, revision: str, ordinal: int
) -> bytes:
    """Return the request body of the pod with an ordinal.

    `revision` is the name of the revision that records `template`.
    """
    name = pod_name(stateful_set, ordinal)
    made_from, owner = template.metadata, stateful_set.metadata
    metadata: JSON = {
        "name": name,
        "generateName": f"{owner.name}-",
        "namespace": owner.namespace,
        "labels": {
            **(made_from.labels or {}),
            **identity_labels(name, ordinal),
            POD_REVISION_LABEL: revision,
        },
        "ownerReferences": [
            controller_reference(
                stateful_set, STATEFUL_SETS.api_version, STATEFUL_SETS.kind
            )
        ],
    }
    if made_from.annotations:
        metadata["annotations"] = made_from.annotations
    if made_from.finalizers:
        metadata["finalizers"] = made_from.finalizers
    spec: JSON = msgspec.json.decode(template.spec)
    spec["hostname"] = name
    spec.pop("subdomain", None)  # the template's subdomain never counts, as upstream
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    if claims := claim_volumes(stateful_set, ordinal):
        spec["volumes"] = _with_claims(spec.get("volumes") or [], claims)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return msgspec.json.encode(body)


def claim_volumes(stateful_set: StatefulSet, ordinal: int) -> list[JSON]:
    """Return the volumes of a pod for its claims, with the names of the templates."""
    names = [template.metadata.name for template in claim_templates(stateful_set)]
    return [
        {
            "name": name,
            "persistentVolumeClaim": {
                "claimName": claim_name(stateful_set, name, ordinal)
            },
        }
        for name in names
    ]


def _with_claims(volumes: list[JSON], claims: list[JSON]) -> list[JSON]:
    """Return the claims, then the volumes whose names no claim has."""
    claimed = {each["name"] for each in claims}
    return [*claims, *(each for each in volumes if each.get("name") not in claimed)]
