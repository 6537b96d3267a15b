"""autoscaling/v1: the scale subresource."""

from controller_manager.api.meta import APIStruct, CompleteObject


class ScaleSpec(APIStruct, frozen=True):
    """The desired replicas."""

    replicas: int = 0


class ScaleStatus(APIStruct, frozen=True):
    """The observed replicas, and the selector of their pods."""

    replicas: int = 0
    selector: str = ""


class Scale(CompleteObject, frozen=True):
    """The scale subresource (autoscaling/v1)."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
