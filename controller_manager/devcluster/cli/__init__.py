"""The subcommands ``devcluster`` and ``demo``, which entry points name.

``cluster`` has the subcommand ``devcluster``, with the subcommands of ``snapshots``;
``demo`` has the other. ``command_line`` reads their arguments. ``failures`` turns the
errors of a cluster into one line.

The help of all subcommands is shown with these modules. So they import no cluster
before a subcommand runs.
"""
