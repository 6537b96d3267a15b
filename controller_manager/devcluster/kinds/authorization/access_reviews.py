"""Answers access reviews with the authorizer's decision and its reason."""

from collections.abc import Iterable

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.reviews import reviewed
from controller_manager.devcluster.scheme.statuses import Cause, invalid_object
from controller_manager.devcluster.server.registry.rest_storage import Call
from controller_manager.devcluster.server.security.authentication import User

from .review_attributes import evaluation_error, review_attributes


def check_review(call: Call, causes: Iterable[Cause]) -> None:
    """Raise Refusal 422 if a review has errors."""
    if found := list(causes):
        raise invalid_object(call.kind.group, call.kind.kind, "", found)


def reviewed_access(call: Call, obj: JSON, user: User) -> JSON:
    """Return a review with the decision about `user` as its status."""
    spec = obj.get("spec") or {}
    authorizer = call.authorizer
    decide = authorizer.decide if user is call.user else authorizer.review
    decision = decide(user, review_attributes(spec))
    status: JSON = {"allowed": decision.is_allowed}
    if decision.reason:
        status["reason"] = decision.reason
    if error := evaluation_error(spec):
        status["evaluationError"] = error
    return reviewed(call, obj, status)
