"""ResourceClaimTemplate: a template of claims to devices, one claim for each pod."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import NameAndAge
from controller_manager.devcluster.scheme.names import (
    validate_annotations,
    validate_labels,
)
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.validation.field_values import IMMUTABLE

from .claim_defaults import default_devices


class ResourceClaimTemplateStrategy(NameAndAge):
    """Fills in how many devices are wanted; the spec never changes."""

    returns_deleted: ClassVar = True

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the defaults of the claims."""
        spec = obj.setdefault("spec", {})
        default_devices(spec.setdefault("spec", {}))

    def validate(self, obj: JSON) -> list[Cause]:
        """Check the labels and annotations of the claims."""
        metadata = obj["spec"]["metadata"]
        labels = metadata.get("labels") or {}
        annotations = metadata.get("annotations") or {}
        return [
            *validate_annotations(annotations, "spec.metadata.annotations"),
            *validate_labels(labels, "spec.metadata.labels"),
        ]

    def validate_update(self, old: JSON, new: JSON) -> list[Cause]:
        """Check that the spec does not change."""
        if old["spec"] == new["spec"]:
            return []
        return [invalid("spec", shown(new["spec"]), IMMUTABLE)]


KIND: Final = kind_of(
    "resource.k8s.io/v1", "resourceclaimtemplates", ResourceClaimTemplateStrategy()
)
