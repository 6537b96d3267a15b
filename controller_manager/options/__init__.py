"""The options of the daemon: flags, the configuration file, and the resulting config.

``flag`` defines flags; ``general_flags`` and ``serving_flags`` have the flags of no
particular controller, ``upstream_flags`` those of controllers that this build lacks;
a controller declares its own with ``controller_options``; ``flag_set`` has all flags.
``values`` and ``durations`` parse single values, ``checks`` checks them, ``gates`` has
the feature gates, ``document`` the tree that a file and /configz have, ``config`` the
typed config, ``leader_migration`` reads the file of that name, and ``parsing`` makes
the config from flags and file. Nothing here acts on an
option.
"""
