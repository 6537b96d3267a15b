"""The name and version of this build, and the upstream release that it reproduces."""

from typing import Final

NAME: Final = "controller-manager"
"""The name of the command."""

VERSION: Final = "0.4.0"
"""This package's own version."""

KUBERNETES_VERSION: Final = "v1.36.2"
"""The kube-controller-manager release whose visible behaviour is reproduced."""

USER_AGENT: Final = f"{NAME}/v{VERSION}"
"""The User-Agent header of this program's requests."""
