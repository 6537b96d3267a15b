"""The admission plugins about certificates (plugin/pkg/admission/certificates)."""

from typing import ClassVar, Final

from controller_manager.control.certificates.request import (
    InvalidRequest,
    parse_request,
)
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.security.authorization import (
    Attributes,
    Authorizer,
)

from .writes import object_of, refused

_GROUP: Final = "certificates.k8s.io"
_REQUESTS: Final = "certificatesigningrequests"
_BUNDLES: Final = "clustertrustbundles"
_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
_MASTERS: Final = "system:masters"


class CertificateApproval(Plugin):
    """Refuses an approval by a user without the verb ``approve`` on the signer."""

    name: ClassVar = "CertificateApproval"
    targets: ClassVar = frozenset(((_GROUP, _REQUESTS, "approval"),))
    validates: ClassVar = frozenset((Operation.UPDATE,))

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, write: Write) -> None:
        """Raise Refusal unless the user may approve."""
        _check_signer(self._authorizer, write, "approve")


class CertificateSigning(Plugin):
    """Refuses a certificate by a user without the verb ``sign`` on the signer."""

    name: ClassVar = "CertificateSigning"
    targets: ClassVar = frozenset(((_GROUP, _REQUESTS, "status"),))
    validates: ClassVar = frozenset((Operation.UPDATE,))

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, write: Write) -> None:
        """Raise Refusal unless the user may change certificate and conditions."""
        before = (write.old or {}).get("status") or {}
        after = object_of(write).get("status") or {}
        names = ("certificate", "conditions")
        if any(
            (before.get(name) or None) != (after.get(name) or None) for name in names
        ):
            _check_signer(self._authorizer, write, "sign")


class CertificateSubjectRestriction(Plugin):
    """Refuses requests for a client certificate of an administrator."""

    name: ClassVar = "CertificateSubjectRestriction"
    targets: ClassVar = frozenset(((_GROUP, _REQUESTS, ""),))
    validates: ClassVar = frozenset((Operation.CREATE,))

    def validate(self, write: Write) -> None:
        """Raise Refusal for a subject in the group system:masters."""
        spec = object_of(write).get("spec", {})
        if spec.get("signerName") != _CLIENT:
            return
        try:
            parsed = parse_request(spec.get("request"))
        except InvalidRequest:
            return  # the validation refuses the request
        if _MASTERS in parsed.organizations:
            why = f"use of {_CLIENT} signer with {_MASTERS} group is not allowed"
            raise refused(write, why)


class ClusterTrustBundleAttest(Plugin):
    """Refuses a trust bundle by a user without the verb ``attest`` on the signer."""

    name: ClassVar = "ClusterTrustBundleAttest"
    targets: ClassVar = frozenset(((_GROUP, _BUNDLES, ""),))
    validates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, write: Write) -> None:
        """Raise Refusal unless the user may attest."""
        spec = object_of(write).get("spec", {})
        signer = spec.get("signerName", "")
        if not signer or (write.old and write.old.get("spec", {}) == spec):
            return
        if not _may(self._authorizer, write, "attest", signer):
            why = f'user not permitted to attest for signerName "{signer}"'
            raise refused(write, why)


def _check_signer(authorizer: Authorizer, write: Write, verb: str) -> None:
    """Raise Refusal unless the user has the verb on the signer of the request."""
    signer = (write.old or object_of(write)).get("spec", {}).get("signerName", "")
    if not _may(authorizer, write, verb, signer):
        why = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise refused(write, why)


def _may(authorizer: Authorizer, write: Write, verb: str, signer: str) -> bool:
    """Tell whether a user has a verb on a signer, or on all signers of its domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    return any(
        authorizer.allows(
            write.user, Attributes(verb, group=_GROUP, resource="signers", name=name)
        )
        for name in names
    )
