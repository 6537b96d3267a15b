"""Everything that the daemon is told: flags, a file, and the config they make.

`flags` is the table, `values` the syntax of single values, `document` the
tree that a file and /configz show, `config` the typed result, `parsing` what
turns the ones into the other. Nothing here acts on an option.
"""
