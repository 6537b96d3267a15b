"""The error of a cluster for tests."""


class ClusterError(Exception):
    """A cluster cannot run with its settings; the message names cause and remedy."""
