"""Logs and metrics of the daemon, with upstream's names.

- ``certificates``: the metric of the ends of certificates
- ``component``: metrics of the versions and the feature gates
- ``connections``: metrics of look-ups, plugins and reloads
- ``defects``: logs and counts unexpected exceptions
- ``exposition``: the text format of /metrics
- ``heartbeat``: the beat of the main event loop, and the look at it
- ``kept_metrics``: metrics of controllers, for a scrape in another thread
- ``lag``: the lag of the event loop
- ``library_logs``: logs of libraries
- ``log_output``: writes log lines, at once or in a thread
- ``logs``: the logger with its verbosity levels
- ``loop_errors``: logs the errors that the event loop reports
- ``metrics``: the Prometheus collectors, a module for each part of the daemon
- ``plain_counter``: counters without the suffix ``_total``
- ``process``: metrics of the process and of the build
- ``rollouts``: the metric of stuck rollouts
- ``slis``: metrics of health checks
"""
