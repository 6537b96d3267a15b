"""certificates.k8s.io/v1beta1: trust bundles, and requests of pods."""

from typing import Final

from controller_manager.api.meta import (
    APIStruct,
    CompleteObject,
    PartialObject,
    Resource,
)

KUBE_APISERVER_SERVING: Final = "kubernetes.io/kube-apiserver-serving"
"""The signer of the API server's serving certificate."""


class ClusterTrustBundleSpec(APIStruct, frozen=True):
    """The authorities, as PEM, by which the certificates of a signer are trusted."""

    signer_name: str = ""
    trust_bundle: str = ""


class ClusterTrustBundle(CompleteObject, frozen=True):
    """Authorities that all workloads of a cluster can use."""

    spec: ClusterTrustBundleSpec = ClusterTrustBundleSpec()


SERVING_TRUST_BUNDLES: Resource[ClusterTrustBundle] = Resource(
    "certificates.k8s.io",
    "v1beta1",
    "clustertrustbundles",
    "ClusterTrustBundle",
    ClusterTrustBundle,
    namespaced=False,
    field_selector=f"spec.signerName={KUBE_APISERVER_SERVING}",
)
"""The bundles of the API server's serving certificate."""


POD_CERTIFICATE_REQUEST_METADATA: Resource[PartialObject] = Resource(
    "certificates.k8s.io",
    "v1beta1",
    "podcertificaterequests",
    "PodCertificateRequest",
    PartialObject,
    metadata_only=True,
)
"""Requests that kubelets make for pods, of which only the metadata is cached."""
