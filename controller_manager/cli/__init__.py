"""The command line, shaped as Cobra shapes kube-controller-manager's.

`command` has the command and its subcommands, `flags` reads arguments as pflag does,
`help` prints the help, and `daemon` runs the manager. Only this package uses uvloop,
and only its subcommands import the development cluster.
"""

from controller_manager.cli.command import main

__all__ = ["main"]
