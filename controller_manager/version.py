"""The name and version of this build, and the upstream release that it reproduces."""

from typing import Final

NAME: Final = "controller-manager"
"""The name of the command."""

VERSION: Final = "0.4.1"
"""This package's own version."""

KUBERNETES_VERSION: Final = "v1.36.2"
"""The kube-controller-manager release whose visible behaviour is reproduced."""

COMPONENT: Final = "kube-controller-manager"
"""The name of the component in whose place the daemon runs."""

COMMAND_USER_AGENT: Final = f"{NAME}/v{VERSION}"
"""The User-Agent header of commands that read or write for a user."""

USER_AGENT: Final = f"{COMPONENT}/{KUBERNETES_VERSION} {COMMAND_USER_AGENT}"
"""The User-Agent header of the daemon.

The API server takes the part before the first "/" as the manager of the fields that
a write sets. Tools for GitOps and their users leave the fields of
kube-controller-manager alone, so the name must be upstream's (client-go:
rest/config.go, `DefaultKubernetesUserAgent`).
"""
