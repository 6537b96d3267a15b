"""certificates.k8s.io/v1: requests for certificates."""

from typing import Final

from controller_manager.api.meta import APIStruct, CompleteObject, Resource

KUBE_APISERVER_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN: Final = "kubernetes.io/legacy-unknown"
SIGNER_NAMES: Final = (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
)
"""The signers of kube-controller-manager."""

APPROVED: Final = "Approved"
DENIED: Final = "Denied"
FAILED: Final = "Failed"


class CertificateSigningRequestCondition(APIStruct, frozen=True):
    """One condition of a request: Approved, Denied, Failed, or a signer's own."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None


class CertificateSigningRequestSpec(APIStruct, frozen=True):
    """The request, its signer, and the user that made it.

    `request` has a PKCS#10 request as PEM, in base64. The API server fills in the user.
    """

    request: str | None = None
    signer_name: str = ""
    expiration_seconds: int | None = None
    usages: tuple[str, ...] | None = None
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class CertificateSigningRequestStatus(APIStruct, frozen=True):
    """The conditions and the certificate of a request; PEM, in base64."""

    conditions: tuple[CertificateSigningRequestCondition, ...] | None = None
    certificate: str | None = None


class CertificateSigningRequest(CompleteObject, frozen=True):
    """A request for a certificate."""

    spec: CertificateSigningRequestSpec = CertificateSigningRequestSpec()
    status: CertificateSigningRequestStatus = CertificateSigningRequestStatus()


SIGNING_REQUESTS: Resource[CertificateSigningRequest] = Resource(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    CertificateSigningRequest,
    namespaced=False,
)
