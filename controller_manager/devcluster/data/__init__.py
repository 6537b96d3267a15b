"""The data file of a cluster, and snapshots of its state."""
