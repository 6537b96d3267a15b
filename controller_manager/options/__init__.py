"""The options of the daemon: flags, the configuration file, and the resulting config.

Nothing here acts on an option.
"""
