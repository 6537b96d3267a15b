"""SubjectAccessReview: asks whether a user may do something."""

from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.authorization.review_attributes import (
    review_attributes,
)
from controller_manager.devcluster.kinds.reviews import reviewed
from controller_manager.devcluster.server.authentication import User
from controller_manager.devcluster.server.call import Call
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy

JSON = dict[str, Any]


class SubjectAccessReviewStrategy(Strategy):
    """Answers a review without storing it."""

    models: ClassVar = ("V1SubjectAccess",)

    def answer(self, call: Call, obj: JSON) -> JSON | None:
        """Return the review with its status."""
        spec = obj.get("spec", {})
        user = User(spec.get("user", ""), "", tuple(spec.get("groups") or ()))
        allowed = call.authorizer.allows(user, review_attributes(spec))
        if not call.authorizer.enforced:
            allowed = call.tokens.is_known(user.name)
        return reviewed(call, obj, {"allowed": allowed})


KIND: Final = Kind(
    "authorization.k8s.io",
    "v1",
    "SubjectAccessReview",
    "subjectaccessreviews",
    namespaced=False,
    model="V1SubjectAccessReview",
    verbs=("create",),
    strategy=SubjectAccessReviewStrategy(),
)
