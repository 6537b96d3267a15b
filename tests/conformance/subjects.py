"""The controllers that recordings show, if all controllers ran when they were made."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Subject(NamedTuple):
    """The controllers that recordings are about, and the resources that they write.

    While one of the controllers is absent the recordings are not played. `resources`
    are those whose writes are compared, with their subresources.
    """

    controllers: tuple[str, ...]
    resources: tuple[str, ...]


_ENDPOINTS: Final = Subject(
    (
        "endpoints-controller",
        "endpointslice-controller",
        "endpointslice-mirroring-controller",
    ),
    ("endpoints", "endpointslices"),
)
_AUTOSCALERS: Final = Subject(
    ("horizontal-pod-autoscaler-controller",),
    ("horizontalpodautoscalers",),
)

_NODES: Final = ("node-lifecycle-controller", "taint-eviction-controller")
_TOKENS: Final = Subject(
    ("serviceaccount-controller", "serviceaccount-token-controller"),
    ("secrets", "serviceaccounts"),
)
_BINDER: Final = "persistentvolume-binder-controller"
_ATTACHER: Final = "persistentvolume-attach-detach-controller"
_CLAIM_PROTECTION: Final = "persistentvolumeclaim-protection-controller"
_VOLUME_PROTECTION: Final = "persistentvolume-protection-controller"
_BOUND: Final = ("persistentvolumeclaims", "persistentvolumes")
_ATTACHED: Final = ("nodes", *_BOUND, "volumeattachments")
_DEVICES: Final = Subject(("resourceclaim-controller",), ("pods", "resourceclaims"))
_BINDING: Final = Subject((_BINDER, _CLAIM_PROTECTION), _BOUND)
_PROTECTING: Final = Subject((_BINDER, _CLAIM_PROTECTION, _VOLUME_PROTECTION), _BOUND)
_ATTACHING: Final = Subject((_BINDER, _ATTACHER), _ATTACHED)
_SIGNING: Final = "certificatesigningrequest-signing-controller"
_APPROVING: Final = "certificatesigningrequest-approving-controller"
_REQUESTS: Final = ("certificatesigningrequests",)

SUBJECTS: Final[Mapping[str, Subject]] = {
    "endpoints": _ENDPOINTS,
    "manyendpoints": _ENDPOINTS,
    "hpa": _AUTOSCALERS,
    "hpazero": _AUTOSCALERS,
    "quota": Subject(("resourcequota-controller",), ("resourcequotas",)),
    "nodes": Subject(_NODES, ("nodes", "pods")),
    "noderate": Subject(_NODES, ("nodes", "pods")),
    "auth-aggregation": Subject(
        ("clusterrole-aggregation-controller",), ("clusterroles",)
    ),
    "auth-bootstrap-tokens-expire": Subject(
        ("token-cleaner-controller",), ("secrets",)
    ),
    "auth-cluster-info": Subject(("bootstrap-signer-controller",), ("configmaps",)),
    "auth-csr-client": Subject((_SIGNING,), _REQUESTS),
    "auth-csr-kubelet-client": Subject((_SIGNING, _APPROVING), _REQUESTS),
    "auth-csr-kubelet-serving": Subject((_SIGNING,), _REQUESTS),
    "auth-sa-token-repaired": _TOKENS,
    "auth-sa-token-strangers": _TOKENS,
    "auth-sa-tokens": _TOKENS,
    "volumes": _BINDING,
    "vol-attach-detach": _ATTACHING,
    "vol-attributes-class": Subject(
        (
            *_PROTECTING.controllers,
            "volumeattributesclass-protection-controller",
        ),
        (*_BOUND, "volumeattributesclasses"),
    ),
    "vol-claim-lost": _PROTECTING,
    "vol-claim-protected": Subject(
        (*_BINDING.controllers, _ATTACHER), (*_BOUND, "volumeattachments")
    ),
    "vol-ephemeral-made": Subject(
        (*_BINDING.controllers, "ephemeral-volume-controller"), _BOUND
    ),
    "vol-expand-outside": Subject(
        (_BINDER, "persistentvolume-expander-controller"), _BOUND
    ),
    "vol-multi-attach": _ATTACHING,
    "vol-provisioned-outside": _PROTECTING,
    "vol-resource-reserved": _DEVICES,
    "vol-resource-template": _DEVICES,
    "vol-volume-protected": _PROTECTING,
}
"""The subjects by the name of a recording, or by family.

A family that is not named here is about the controllers that its ARGS name, or about
all of them.
"""
