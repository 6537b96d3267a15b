"""The command line, shaped as Cobra shapes kube-controller-manager's.

Only this package uses uvloop.
"""

from .command import kubectl_plugin, main

__all__ = ["kubectl_plugin", "main"]
