"""The annotations by which the binder, provisioners and the scheduler work together.

Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go.
"""

from typing import Final

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""Of a claim that was bound once; such a claim is never bound again."""

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Of a claim or a volume that did not name the other object before it was bound."""

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
"""Of a volume: the provisioner that has made it for its claim."""

MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"
"""The CSI driver that does the work of an in-tree plugin."""

STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
"""Of a claim: the provisioner that has to make a volume for it."""

BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
"""The former name of this annotation; the controller writes both."""

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Of a claim: the node that the scheduler has chosen for the first consumer."""

PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
"""Of a volume that grew before it was bound: the size of its file system."""

YES: Final = "yes"

IN_TREE_FINALIZER: Final = "kubernetes.io/pv-controller"
"""Of a volume that an in-tree plugin has to delete before the object."""

EXTERNAL_FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
"""Of a volume that an external provisioner has to delete before the object."""
