"""The manager: groups of runnables, and the order in which they start and stop.

``servers`` serves over HTTPS, ``caches`` runs the informers, ``ownership`` takes and
holds the right to write, ``controllers`` runs the controllers, each once its own
caches are synced, and ``events`` writes what they record. All are runnables (see
``runnable``): they run, stop, and say whether they are healthy and ready.
``startup`` chooses the controllers and makes them, with what ``contexts`` gives them;
``health`` collects the checks of /healthz, /livez and /readyz; ``manager`` puts it
all together. Nothing here knows a particular controller.
"""
