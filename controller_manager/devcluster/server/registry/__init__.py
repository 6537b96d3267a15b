"""Create, update and delete of stored objects (registry/generic).

- ``objects``: the verbs. ``store`` finds and names objects, ``updates`` prepares the
  new object, ``preconditions`` checks the expected version, ``stored_form`` makes the
  form in which objects are stored.
- ``scale``: the subresource of all kinds that have one.
- ``field_owners``: the manager of fields that a request names.
- ``rest_storage``: the handlers of a resource that use stored objects.
"""
