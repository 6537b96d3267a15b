"""TokenReview: asks which user a token authenticates."""

from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.reviews import reviewed
from controller_manager.devcluster.server.authentication import AUDIENCE
from controller_manager.devcluster.server.call import Call
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy

JSON = dict[str, Any]


class TokenReviewStrategy(Strategy):
    """Answers a review without storing it."""

    models: ClassVar = ("V1Token", "V1UserInfo")

    def answer(self, call: Call, obj: JSON) -> JSON | None:
        """Return the review with its status."""
        token = obj.get("spec", {}).get("token", "")
        user = call.tokens.lookup(token)
        if user is None:
            return reviewed(call, obj, {"user": {}, "error": "invalid bearer token"})
        status = {
            "authenticated": True,
            "user": user.as_json(),
            "audiences": [AUDIENCE],
        }
        return reviewed(call, obj, status)


KIND: Final = Kind(
    "authentication.k8s.io",
    "v1",
    "TokenReview",
    "tokenreviews",
    namespaced=False,
    model="V1TokenReview",
    verbs=("create",),
    strategy=TokenReviewStrategy(),
)
