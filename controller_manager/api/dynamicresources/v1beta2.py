"""resource.k8s.io/v1beta2: rules by which administrators taint devices."""

from controller_manager.api.meta import (
    APIStruct,
    Condition,
    PartialMetadata,
    Projection,
    Resource,
)

from .v1 import GROUP, DeviceTaint


class DeviceTaintRuleMeta(PartialMetadata, frozen=True):
    """The metadata of a rule that controllers read."""

    generation: int = 0


class DeviceTaintSelector(APIStruct, frozen=True):
    """The devices that have all these names; a name that is `None` fits all devices."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(APIStruct, frozen=True):
    """A taint, and the devices that have it: no device without a selector."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRuleStatus(APIStruct, frozen=True):
    """The progress of the evictions by a rule."""

    conditions: tuple[Condition, ...] | None = None


class DeviceTaintRule(Projection, frozen=True):
    """A projection of a rule; it is never written by PUT."""

    metadata: DeviceTaintRuleMeta = DeviceTaintRuleMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()


DEVICE_TAINT_RULES: Resource[DeviceTaintRule] = Resource(
    GROUP,
    "v1beta2",
    "devicetaintrules",
    "DeviceTaintRule",
    DeviceTaintRule,
    namespaced=False,
)
