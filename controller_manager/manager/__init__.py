"""The manager: groups of runnables, and the order in which they start and stop.

All parts are runnables (see ``runnable``): they run, stop, and say whether they are
healthy and ready. Nothing here knows a particular controller.

- ``absent``: the controllers of upstream that do not run
- ``awaited``: waits for resources that the API server lacks
- ``beside``: the place of what must never wait for the main loop
- ``caches``: runs the informers
- ``contexts``: makes the context of each controller
- ``control_thread``: the thread of the lease and the endpoints
- ``controllers``: starts each controller once its own caches are synced
- ``elections``: makes the electors of the leases
- ``events``: writes the recorded events
- ``health``: the checks of /healthz, /livez and /readyz
- ``manager``: connects all parts
- ``migration``: holds the lease of leader migration
- ``missing``: the resources that the API server lacks
- ``ownership``: acquires and holds the right to write
- ``permissions``: the permissions that the manager itself needs
- ``preview``: the preview of a manager, which writes nothing
- ``runnable``: the protocol of all parts
- ``servers``: serves over HTTPS
- ``stalled``: the rollouts in the caches that do not get on
- ``startup``: selects the controllers and makes them
- ``stuck_rollouts``: counts the stuck rollouts by cause
"""
