"""kube-apiserver-serving-clustertrustbundle-publisher-controller."""

from typing import Final

from controller_manager.api.certificates.v1beta1 import (
    KUBE_APISERVER_SERVING,
    SERVING_TRUST_BUNDLES,
)
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor, lacks_authority
from controller_manager.runtime.permissions import RECORD_EVENTS, Permission, allow

CLUSTER_TRUST_BUNDLE: Final = Gate("ClusterTrustBundle", default=False)
"""API servers serve ClusterTrustBundles, which workloads can mount."""


CONTROLLER = Descriptor(
    name="kube-apiserver-serving-clustertrustbundle-publisher-controller",
    load=".controller:TrustBundleReconciler",
    requires=(SERVING_TRUST_BUNDLES,),
    requires_gates=(CLUSTER_TRUST_BUNDLE,),
    lacks=lacks_authority,
    permissions=(
        Permission(
            SERVING_TRUST_BUNDLES.group,
            "signers",
            ("attest",),
            (KUBE_APISERVER_SERVING,),
        ),
        allow(SERVING_TRUST_BUNDLES, "create", "delete", "list", "update", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=(
        "clustertrustbundle_publisher_sync_duration_seconds",
        "clustertrustbundle_publisher_sync_total",
    ),
    service_account="kube-apiserver-serving-clustertrustbundle-publisher",
)
