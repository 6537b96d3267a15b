"""Makes the body of a claim from a template (handleClaim)."""

from typing import Final

import msgspec

from controller_manager.api.core.v1 import PODS, PodResourceClaim
from controller_manager.api.dynamicresources.v1 import (
    POD_CLAIM_NAME,
    RESOURCE_CLAIMS,
    ResourceClaimTemplate,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS

from .consumers import POD, Consumer

_LONGEST_BASE: Final = 57
"""The API server appends 5 random characters, and a label holds 63 with a hyphen."""


def generate_name(consumer: str, entry: str) -> str:
    """Return the prefix of a claim's name; both names are cut if it is too long.

    Each name keeps a share in proportion to its length, so that users recognize both:
    of names with 80 and 20 characters, 44 and 11 remain (102 with the two hyphens). No
    hyphen follows a dot, which names must not have.
    """
    whole = f"{consumer}-{entry}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    kept = [
        each[: len(each) * _LONGEST_BASE // len(whole)] for each in (consumer, entry)
    ]
    return "-".join((kept[0].rstrip("."), kept[1]))


def claim_body(
    consumer: Consumer, entry: PodResourceClaim, template: ResourceClaimTemplate
) -> bytes:
    """Return the JSON of the claim from a template for an entry of a consumer."""
    metadata: JSON = {
        "generateName": generate_name(consumer.name, entry.name),
        "annotations": {
            **(template.spec.metadata.annotations or {}),
            POD_CLAIM_NAME: entry.name,
        },
        "ownerReferences": [_owner(consumer)],
    }
    if template.spec.metadata.labels:
        metadata["labels"] = template.spec.metadata.labels
    return msgspec.json.encode(
        {
            "apiVersion": RESOURCE_CLAIMS.api_version,
            "kind": RESOURCE_CLAIMS.kind,
            "metadata": metadata,
            "spec": template.spec.spec,
        }
    )


def _owner(consumer: Consumer) -> JSON:
    resource = PODS if consumer.resource == POD else POD_GROUPS
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": consumer.name,
        "uid": consumer.uid,
        "controller": True,
    }


def statuses_of(consumer: Consumer, names: dict[str, str | None]) -> list[JSON]:
    """Return the claims that were created for a consumer, as entries of its status.

    They always have the order of the spec. Upstream orders them at random, and leaves
    out the entries that the status has already, which removes those entries.
    """
    status_names = {**consumer.status_names, **names}
    return [
        {"name": each.name}
        if (name := status_names[each.name]) is None
        else {"name": each.name, "resourceClaimName": name}
        for each in consumer.wanted
        if each.resource_claim_name is None and each.name in status_names
    ]
