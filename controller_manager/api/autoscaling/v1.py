"""autoscaling/v1: the scale subresource."""

from controller_manager.api.meta import APIStruct, CompleteObject


class ScaleSpec(APIStruct, frozen=True):
    """The size that is wanted."""

    replicas: int = 0


class ScaleStatus(APIStruct, frozen=True):
    """The size that is observed, and the pods it counts."""

    replicas: int = 0
    selector: str = ""


class Scale(CompleteObject, frozen=True):
    """The scale subresource (autoscaling/v1)."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
