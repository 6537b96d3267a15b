"""authorization.k8s.io/v1, as far as it is used."""

from controller_manager.api.meta import APIStruct, ObjectMeta
from controller_manager.api.resource import Resource


class NonResourceAttributes(APIStruct, frozen=True):
    """A path that is no resource, and what is to be done with it."""

    path: str = ""
    verb: str = ""


class SubjectAccessReviewSpec(APIStruct, frozen=True):
    """Who wants to do what."""

    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class SubjectAccessReviewStatus(APIStruct, frozen=True):
    """Whether that is allowed."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""


class SubjectAccessReview(APIStruct, frozen=True):
    """Asks whether somebody may do something."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


SUBJECT_ACCESS_REVIEWS: Resource[SubjectAccessReview] = Resource(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
    SubjectAccessReview,
    namespaced=False,
)
