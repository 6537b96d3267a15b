"""The command line, shaped as Cobra shapes kube-controller-manager's.

`command` is the command and its subcommands, `flags` the reading of arguments
as pflag does, `help` what is printed, `daemon` what runs. Only this package
picks uvloop, and only it imports the development cluster, when that is asked
for.
"""

from controller_manager.cli.command import main

__all__ = ["main"]
