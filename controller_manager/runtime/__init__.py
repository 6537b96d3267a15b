"""The runtime of all controllers.

Nothing here may know a particular controller.

- ``consistency``: knows the keys that wait until the caches show their last writes
- ``context``: the parts that a controller receives
- ``controller``: a running controller
- ``descriptor``: the facts of a controller
- ``handlers``: turn changes of objects into keys
- ``initializing``: makes a controller from its descriptor
- ``invalid_configuration``: the error of flags that contradict each other
- ``key_report``: the report about one key: its last sync, and the next one
- ``outcome``: the outcome of a reconcile
- ``permissions``: the rules of a controller's role
- ``reconciler``: the class that most controllers extend
- ``registry``: the controllers of a build, by name
- ``restarting``: repeats work after an unexpected exception
- ``roles``: manifests of roles
- ``root_causes``: the root cause of a rollout that is stuck
- ``stopping``: waits for work or for a stop
- ``turns``: the time of workers in one turn of the event loop
- ``watches``: declarations of watched resources
- ``worker``: the loop that takes keys and calls the reconcile
"""
