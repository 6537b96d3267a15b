"""The feature gate of trust bundles."""

from typing import Final

from controller_manager.options.gates import Gate

CLUSTER_TRUST_BUNDLE: Final = Gate("ClusterTrustBundle", default=False)
"""API servers serve ClusterTrustBundles, which workloads can mount."""
