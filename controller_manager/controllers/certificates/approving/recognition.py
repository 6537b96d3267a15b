"""Which requests may be approved, and what their user must be allowed to do.

Upstream: sarapprove.go. Pure functions.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from controller_manager.api.certificates.v1 import (
    KUBELET_CLIENT,
    CertificateSigningRequestSpec,
)
from controller_manager.control.certificates.kubelet import client_complaint
from controller_manager.control.certificates.request import ParsedRequest


class Right(Struct, frozen=True):
    """A subresource that a user must be allowed to create, and what approval says."""

    subresource: str
    message: str


SELF: Final = Right(
    "selfnodeclient",
    "Auto approving self kubelet client certificate after SubjectAccessReview.",
)
"""For a node that asks for its own next certificate."""

OTHER: Final = Right(
    "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."
)
"""For a newcomer that asks for the certificate of a node."""


def rights(
    spec: CertificateSigningRequestSpec, parsed: ParsedRequest
) -> Iterator[Right]:
    """Yield the rights of which one is enough, in the order of asking.

    There are none for a request that is not for the client certificate of a kubelet.
    """
    if spec.signer_name != KUBELET_CLIENT:
        return
    if client_complaint(parsed, spec.usages or ()) is not None:
        return
    if spec.username == parsed.common_name:
        yield SELF
    yield OTHER
