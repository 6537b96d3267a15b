"""SelfSubjectAccessReview: asks whether the user of the request may do something."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.server.registry.rest_storage import Call, RESTStorage

from .access_reviews import check_review, reviewed_access
from .review_validation import validate_self_review


def review_own_access(call: Call, obj: JSON) -> JSON:
    """Return the review with its status; raises Refusal."""
    check_review(call, validate_self_review(obj))
    return reviewed_access(call, obj, call.user)


KIND: Final = kind_of(
    "authorization.k8s.io/v1",
    "selfsubjectaccessreviews",
)
REST_STORAGE: Final = RESTStorage(KIND.resource, create=review_own_access)
