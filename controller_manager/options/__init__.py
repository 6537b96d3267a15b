"""The options of the daemon: flags, the configuration file, and the resulting config.

Nothing here acts on an option.

- ``build``: the parts of a build that the parsing depends on
- ``checks``: checks of single values
- ``client_config``: makes the config of the client
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
- ``generic_config``: makes the config of the daemon, its leases and its preview
- ``leader_migration``: reads the file of leader migration
- ``logging_config``: makes the config of the log
- ``manager_pods``: the flags of a manager that runs in a pod
- ``numbers``: numbers in Go's format
- ``options``: the values of all flags, and their problems
- ``parsing``: makes the config from flags and file
- ``serving_config``: makes the config of the HTTPS server
- ``serving_flags``: the flags of the HTTPS server
- ``suggestions``: suggestions for misspelled names
- ``tls``: names of cipher suites and curves
- ``upstream_flags``: the flags of controllers that this build lacks
- ``upstream_gates``: all feature gates of upstream
- ``values``: parses single values
- ``versions``: the versions to emulate
"""
