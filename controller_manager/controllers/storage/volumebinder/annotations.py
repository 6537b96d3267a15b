"""The annotations by which the binder, provisioners and the scheduler work together.

Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go.
"""

from typing import Final

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""Of a claim that was bound once; whatever happens then, it is not bound anew."""

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Of a claim or a volume that did not name the other one before it was bound."""

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
"""Of a volume: who has made it for its claim."""

MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"
"""The CSI driver that does the work of an in-tree plugin."""

STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
"""Of a claim: who is to make a volume for it."""

BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
"""The former name of the annotation; it is still written, too."""

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Of a claim: the node that the scheduler has chosen for the first consumer."""

PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
"""Of a volume that grew before it was bound: the size of its file system."""

YES: Final = "yes"

IN_TREE_FINALIZER: Final = "kubernetes.io/pv-controller"
"""Of a volume that an in-tree plugin is to delete before the object may go."""

EXTERNAL_FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
"""Of a volume that an external provisioner is to delete before the object may go."""
