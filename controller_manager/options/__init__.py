"""The options of the daemon: flags, the configuration file, and the resulting config.

Nothing here acts on an option.

- ``build``: the parts of a build that the parsing depends on
- ``checks``: checks of single values
- ``config``: the frozen config
- ``controller_options``: the flags that a controller declares
- ``document``: the options as the tree that a file and /configz have
- ``durations``: durations in Go's format
- ``file_fields``: fields of the file that no flag sets
- ``flag``: the definition of a flag
- ``flag_set``: all flags of a build
- ``gate_values``: the values of all feature gates, for metrics
- ``gates``: the feature gates that have an effect here
- ``general_flags``: the flags of no particular controller
- ``leader_migration``: reads the file of leader migration
- ``numbers``: numbers in Go's format
- ``parsing``: makes the config from flags and file
- ``serving_flags``: the flags of the HTTPS server
- ``tls``: names of cipher suites and curves
- ``upstream_flags``: the flags of controllers that this build lacks
- ``upstream_gates``: all feature gates of upstream
- ``values``: parses single values
- ``versions``: the versions to emulate
"""
