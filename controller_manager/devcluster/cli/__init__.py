"""The subcommands ``devcluster`` and ``demo``, which entry points name.

``cluster`` and ``demo`` have them, with the flags, and ``command_line`` reads their
arguments: they import no cluster before a subcommand runs, since the main help shows
their help. ``running`` runs the cluster of ``devcluster``. ``steps`` has the steps of
``demo``, ``user`` the actions in them, by a client of kubernetes_asyncio, ``rows`` the
screen.
"""
