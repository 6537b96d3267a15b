"""The manager: groups of runnables, and the order in which they start and stop.

``servers`` serves over HTTPS, ``caches`` runs the informers, ``ownership`` acquires
and holds the right to write, ``elections`` makes the electors of its leases,
``migration`` holds the lease of leader migration, ``controllers`` starts each
controller once its own caches are synced, and ``events`` writes the recorded events.
All are runnables (see ``runnable``): they run, stop, and say whether they are healthy
and ready.
``startup`` selects the controllers and makes them, each with a context that
``contexts`` makes; ``absent`` names those of upstream that do not run, ``missing``
the resources that the API server lacks; ``awaited``
waits for resources that the API server lacks; ``health`` collects the checks of
/healthz, /livez and /readyz; ``manager`` connects all parts. Nothing here
knows a particular controller.
"""
