"""LocalSubjectAccessReview: asks whether a user may do something in a namespace."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.scheme.statuses import bad_request
from controller_manager.devcluster.server.registry.rest_storage import Call, RESTStorage

from .access_reviews import check_review, reviewed_access
from .review_attributes import reviewed_user
from .review_validation import validate_local_review


def review_local_access(call: Call, obj: JSON) -> JSON:
    """Return the review with its status; raises Refusal.

    With it, an administrator of one namespace may ask about users in that namespace.
    """
    metadata = obj.setdefault("metadata", {})
    if not metadata.get("namespace"):
        metadata["namespace"] = call.namespace
    check_review(call, validate_local_review(obj))
    if metadata["namespace"] != call.namespace:
        message = (
            f"spec.resourceAttributes.namespace must match namespace: {call.namespace}"
        )
        raise bad_request(message)
    return reviewed_access(call, obj, reviewed_user(obj["spec"]))


KIND: Final = kind_of("authorization.k8s.io/v1", "localsubjectaccessreviews")
REST_STORAGE: Final = RESTStorage(KIND.resource, create=review_local_access)
