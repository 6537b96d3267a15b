"""Everything that the daemon is told: flags, a file, and the config they make.

``flag`` says what a flag is; ``general_flags``, ``serving_flags`` and
``upstream_flags`` have those of no controller here, ``controller_options`` is how a
controller declares its own, and ``flag_set`` has all of them. ``values`` and
``durations`` have the syntax of single values, ``checks`` what they must be,
``gates`` the feature gates, ``document`` the tree that a file and /configz show,
``config`` the typed result, ``parsing`` what turns the ones into the other. Nothing
here acts on an option.
"""
