"""The error of a cluster for tests."""


class ClusterError(Exception):
    """A cluster cannot run as it was asked to; the message names cause and remedy."""
