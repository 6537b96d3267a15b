"""The check that the manager knows the certificate authorities of the API server."""

from controller_manager.options.config import Config


def lacks_authority(_: Config, root_ca: str) -> str:
    """Return how to make an authority known, "" if `root_ca` (PEM) has one."""
    if root_ca:
        return ""
    return "--root-ca-file, or a kubeconfig with a certificate-authority"
