"""The parts of which the daemon consists: groups of what runs, and their health.

``controllers`` starts each controller once its own caches are synced, and stops
them all; ``health`` makes the checks of /healthz, /livez and /readyz of what runs.
Nothing here knows a particular controller.
"""
