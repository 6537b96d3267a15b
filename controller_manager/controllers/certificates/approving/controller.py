"""Approves requests of kubelets, if RBAC allows it (sarapprove.go)."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.authorization.v1 import (
    SUBJECT_ACCESS_REVIEWS,
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from controller_manager.api.certificates import v1
from controller_manager.api.meta import key_of
from controller_manager.client.rest.errors import NotFound
from controller_manager.control.certificates import FIRST_DELAY, request_backoff
from controller_manager.control.certificates.request import (
    InvalidRequest,
    ParsedRequest,
    parse_request,
    validate_kubelet_client,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, Requeue, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

_LONGEST_REFUSAL: Final = 1000.0
"""Upstream's longest delay, in seconds, of a request that its user may not make.

The request stays until the cleaner deletes it after a day.
"""


class Right(Struct, frozen=True):
    """A subresource that a user must be allowed to create, and a message."""

    subresource: str
    message: str


SELF: Final = Right(
    "selfnodeclient",
    "Auto approving self kubelet client certificate after SubjectAccessReview.",
)
"""The right to renew the certificate of the user's own node."""

OTHER: Final = Right(
    "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."
)
"""The right to request the certificate of any node."""


def rights(
    spec: v1.CertificateSigningRequestSpec, parsed: ParsedRequest
) -> Iterator[Right]:
    """Yield the rights that allow a request, in the order in which they are checked.

    One of them is enough. A request that is not for the client certificate of a kubelet
    has none.
    """
    if spec.signer_name != v1.KUBELET_CLIENT:
        return
    if validate_kubelet_client(parsed, spec.usages or ()) is not None:
        return
    if spec.username == parsed.common_name:
        yield SELF
    yield OTHER


REASON: Final = "AutoApproved"


def _is_undecided(request: v1.CertificateSigningRequest) -> bool:
    decisions = (v1.APPROVED, v1.DENIED)
    return not request.status.certificate and not any(
        each.type in decisions for each in request.status.conditions or ()
    )


class ApprovingReconciler(Reconciler[v1.CertificateSigningRequest]):
    """Approves requests of users that have a right, by a SubjectAccessReview.

    RBAC may allow a request later, so the reconciler checks a refused request again.
    """

    watches = (For(v1.SIGNING_REQUESTS, when=_is_undecided),)
    queue_name = "csrapproving"
    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._refusals = ExponentialBackoff(FIRST_DELAY, _LONGEST_REFUSAL)

    def backoff(self) -> Backoff:
        """Return the delays between retries."""
        return request_backoff()

    def forget(self, key: str) -> None:
        """Drop the backoff of a deleted request."""
        self._refusals.forget(key)

    async def reconcile(self, request: v1.CertificateSigningRequest) -> Outcome:
        """Approve the request if its user has one of its rights."""
        key = key_of(request)
        if not _is_undecided(request):
            self._refusals.forget(key)
            return DONE
        asked = []
        for right in _rights_of(request):
            if await self._has(request.spec, right):
                self._refusals.forget(key)
                await self._approve(request, right)
                return DONE
            asked.append(right.subresource)
        if not asked:
            return DONE
        reason = f"{' and '.join(asked)} not allowed by the subject access review"
        return Requeue(self._refusals.when(key), reason)

    async def _has(self, spec: v1.CertificateSigningRequestSpec, right: Right) -> bool:
        """Ask whether the user of a request has a right."""
        attributes = ResourceAttributes(
            group=v1.SIGNING_REQUESTS.group,
            version="*",
            resource=v1.SIGNING_REQUESTS.plural,
            verb="create",
            subresource=right.subresource,
        )
        review = SubjectAccessReview(
            spec=SubjectAccessReviewSpec(
                resource_attributes=attributes,
                user=spec.username,
                uid=spec.uid,
                groups=spec.groups,
                extra=spec.extra,
            )
        )
        answer = await self.client.create(SUBJECT_ACCESS_REVIEWS, review)
        return answer.status.allowed

    async def _approve(
        self, request: v1.CertificateSigningRequest, right: Right
    ) -> None:
        condition = v1.CertificateSigningRequestCondition(
            type=v1.APPROVED, status="True", reason=REASON, message=right.message
        )
        conditions = (*(request.status.conditions or ()), condition)
        status = replace(request.status, conditions=conditions)
        with suppress(NotFound):
            await self.client.update_for_metadata(
                v1.SIGNING_REQUESTS, replace(request, status=status), "approval"
            )


def _rights_of(request: v1.CertificateSigningRequest) -> tuple[Right, ...]:
    try:
        parsed = parse_request(request.spec.request)
    except InvalidRequest as error:
        msg = f"unable to parse csr {request.metadata.name!r}: {error}"
        raise SyncError(msg) from error
    return tuple(rights(request.spec, parsed))
