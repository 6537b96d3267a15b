"""SelfSubjectAccessReview: asks whether the user of the request may do something."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.authorization.access_reviews import (
    check_review,
    reviewed_access,
)
from controller_manager.devcluster.kinds.authorization.review_validation import (
    validate_self_review,
)
from controller_manager.devcluster.server.call import Call
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy


class SelfSubjectAccessReviewStrategy(Strategy):
    """Answers a review without storing it."""

    messages: ClassVar = {
        "SelfSubjectAccessReview": {
            1: "metadata:ObjectMeta",
            2: "spec:SelfSubjectAccessReviewSpec",
            3: "status:SubjectAccessReviewStatus",
        },
        "SelfSubjectAccessReviewSpec": {
            1: "resourceAttributes:ResourceAttributes",
            2: "nonResourceAttributes:NonResourceAttributes",
        },
        "ResourceAttributes": {
            1: "namespace:str",
            2: "verb:str",
            3: "group:str",
            4: "version:str",
            5: "resource:str",
            6: "subresource:str",
            7: "name:str",
            8: "fieldSelector:SelectorAttributes",
            9: "labelSelector:SelectorAttributes",
        },
        "SelectorAttributes": {
            1: "rawSelector:str",
            2: "requirements:[]LabelSelectorRequirement",
        },
        "NonResourceAttributes": {1: "path:str", 2: "verb:str"},
        "SubjectAccessReviewStatus": {
            1: "allowed:bool",
            2: "reason:str",
            3: "evaluationError:str",
            4: "denied:bool",
        },
    }

    def answer(self, call: Call, obj: JSON) -> JSON | None:
        """Return the review with its status; raises Refusal."""
        check_review(call, validate_self_review(obj))
        return reviewed_access(call, obj, call.user)


KIND: Final = Kind(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    namespaced=False,
    model="V1SelfSubjectAccessReview",
    verbs=("create",),
    strategy=SelfSubjectAccessReviewStrategy(),
)
