"""The command line, shaped as Cobra shapes kube-controller-manager's.

Only this package uses uvloop.

- ``command``: the command and its own subcommands
- ``completion``: completes the names of controllers in a shell
- ``daemon``: runs the manager
- ``doctor``: the subcommand that examines a cluster
- ``explain``: the subcommand that explains an object
- ``failure``: the errors that report bad input
- ``flags``: reads arguments as pflag does
- ``help``: prints the help
- ``open_files``: the limit of open files
- ``preview``: the subcommand that shows the report of a preview
- ``roles``: the subcommand that prints roles
- ``subcommands``: finds the subcommands of installed packages
"""

from controller_manager.cli.command import kubectl_plugin, main

__all__ = ["kubectl_plugin", "main"]
