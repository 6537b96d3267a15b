"""Caches of the API server's objects, kept up to date by watches.

Nothing here writes to the API server or depends on a controller.

- ``changes``: the parts by which two versions of an object differ
- ``controller_informers``: the informers that one controller has requested
- ``declared``: an informer that shows only the declared fields
- ``dispatch``: handlers, and the dispatcher, which calls those that a change concerns
- ``factory``: starts one informer for each resource
- ``indexes``: indexes, which find objects without a walk over all
- ``informer``: the shared informer: one watch, many handlers
- ``lister``: reads a cache by name, namespace, owner or selector
- ``pod_events``: decodes the watch of pods without the specs that are known
- ``pod_specs``: the specs that pods share, by their bytes
- ``pod_transform``: makes cached pods small
- ``reads``: declarations of the fields that controllers read
- ``reflector``: list and watch, as a state machine
- ``sharing``: the owners and namespaces that cached objects share
- ``store``: the indexed store
- ``transforms``: functions that make cached objects small
- ``trimming``: drops the fields that no controller reads
- ``views``: objects with only the fields that a controller declares
"""
