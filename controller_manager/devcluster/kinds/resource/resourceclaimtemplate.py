"""ResourceClaimTemplate: a template of claims to devices, one claim for each pod."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import NameAndAge
from controller_manager.devcluster.validation.text import table

from .claim_defaults import default_devices

_RULES: Final = table(
    """
    spec:
      metadata:
        annotations: annotations
        labels: labels
    """
)


class ResourceClaimTemplateStrategy(NameAndAge):
    """Fills in how many devices are wanted; the spec never changes."""

    returns_deleted: ClassVar = True
    rules: ClassVar = _RULES
    update_rules: ClassVar = table("spec: immutable")

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the defaults of the claims."""
        spec = obj.setdefault("spec", {})
        default_devices(spec.setdefault("spec", {}))


KIND: Final = kind_of(
    "resource.k8s.io/v1", "resourceclaimtemplates", ResourceClaimTemplateStrategy()
)
