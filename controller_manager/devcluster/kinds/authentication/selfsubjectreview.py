"""SelfSubjectReview: returns the user of the request (``kubectl auth whoami``)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.server.registry.rest_storage import Call, RESTStorage


def review_self(call: Call, obj: JSON) -> JSON:
    """Return the review with the user of the request."""
    return {
        "kind": call.kind.kind,
        "apiVersion": call.kind.api_version,
        "metadata": {
            **obj.get("metadata", {}),
            "creationTimestamp": format_time(call.objects.clock.now()),
        },
        "status": {"userInfo": call.user.as_json()},
    }


KIND: Final = kind_of("authentication.k8s.io/v1", "selfsubjectreviews")
REST_STORAGE: Final = RESTStorage(KIND.resource, create=review_self)
