"""authorization.k8s.io/v1: reviews of permissions."""

from controller_manager.api.meta import APIStruct, CompleteObject, Resource
from controller_manager.api.selectors import LabelSelectorRequirement


class FieldSelectorRequirement(APIStruct, frozen=True):
    """One expression of a field selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class FieldSelectorAttributes(APIStruct, frozen=True):
    """A field selector, as text or as expressions."""

    raw_selector: str = ""
    requirements: tuple[FieldSelectorRequirement, ...] | None = None


class LabelSelectorAttributes(APIStruct, frozen=True):
    """A label selector, as text or as expressions."""

    raw_selector: str = ""
    requirements: tuple[LabelSelectorRequirement, ...] | None = None


class ResourceAttributes(APIStruct, frozen=True):
    """A request for one or several objects: its verb and the objects."""

    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: FieldSelectorAttributes | None = None
    label_selector: LabelSelectorAttributes | None = None


class NonResourceAttributes(APIStruct, frozen=True):
    """A request for a path that is not a resource: its verb and the path."""

    path: str = ""
    verb: str = ""


class SubjectAccessReviewSpec(APIStruct, frozen=True):
    """The user, and the request that the user wants to make."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class SubjectAccessReviewStatus(APIStruct, frozen=True):
    """The answer of a review: `allowed` if the user may make the request."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(CompleteObject, frozen=True):
    """Asks whether a user may make a request."""

    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class SelfSubjectAccessReviewSpec(APIStruct, frozen=True):
    """The request that the user of the review wants to make."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None


class SelfSubjectAccessReview(CompleteObject, frozen=True):
    """Asks whether the user who sends it may make a request."""

    spec: SelfSubjectAccessReviewSpec = SelfSubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


SELF_SUBJECT_ACCESS_REVIEWS: Resource[SelfSubjectAccessReview] = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    SelfSubjectAccessReview,
    namespaced=False,
)

SUBJECT_ACCESS_REVIEWS: Resource[SubjectAccessReview] = Resource(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
    SubjectAccessReview,
    namespaced=False,
)
