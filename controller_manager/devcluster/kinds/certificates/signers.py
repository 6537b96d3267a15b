"""Who may approve and sign (plugin/pkg/admission/certificates)."""

from typing import Any, Final

from controller_manager.control.certificates.request import (
    InvalidRequest,
    parse_request,
)
from controller_manager.devcluster.server.authentication import User
from controller_manager.devcluster.server.authorization import Attributes, Authorizer
from controller_manager.devcluster.server.statuses import Refusal, forbidden

JSON = dict[str, Any]

GROUP: Final = "certificates.k8s.io"
PLURAL: Final = "certificatesigningrequests"

_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
_MASTERS: Final = "system:masters"


def check_signer(
    user: User, authorizer: Authorizer, verb: str, name: str, signer: str
) -> None:
    """Raise Refusal unless a user may approve, or sign, for a signer.

    The right may be for the signer, or for all signers of its domain.
    """
    domain = signer.partition("/")[0]
    if any(
        authorizer.allows(
            user, Attributes(verb, group=GROUP, resource="signers", name=each)
        )
        for each in (signer, f"{domain}/*")
    ):
        return
    why = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise forbidden(GROUP, PLURAL, name, why)


def check_subject(obj: JSON) -> None:
    """Raise Refusal for a client that asks to be an administrator.

    Upstream: the admission plugin CertificateSubjectRestriction.
    """
    spec = obj.get("spec", {})
    if spec.get("signerName") != _CLIENT:
        return
    try:
        parsed = parse_request(spec.get("request"))
    except InvalidRequest:
        return  # the validation refuses it
    if _MASTERS in parsed.organizations:
        raise _restricted(obj["metadata"].get("name", ""))


def _restricted(name: str) -> Refusal:
    why = f"use of {_CLIENT} signer with {_MASTERS} group is not allowed"
    return forbidden(GROUP, PLURAL, name, why)
