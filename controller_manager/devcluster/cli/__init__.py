"""The subcommands ``devcluster`` and ``demo``, which entry points name.

``cluster`` and ``demo`` import no cluster before a subcommand runs, since the main help
shows their help. ``running`` runs the cluster of ``devcluster``, ``steps`` the demo,
and ``rows`` is the demo's screen.
"""
