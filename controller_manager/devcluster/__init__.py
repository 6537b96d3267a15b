"""A Kubernetes API on one machine, in memory, to run and test controllers on.

Over HTTP, ``http_server`` calls the server, with aiohttp; in memory, ``inmemory`` does.
Nothing of this project imports this package: entry points name its subcommands and its
plugin. The package contains the API. It gets the registry of the controllers as an
argument.
"""
