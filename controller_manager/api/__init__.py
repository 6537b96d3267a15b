"""The types of the Kubernetes API that the controllers use.

This package has typed, immutable objects, decoded directly from JSON, and pure
functions over them. Nothing here awaits, logs, reads a clock or uses the network.

A part that a controller only copies is kept as bytes (`msgspec.Raw`), so that a write
loses no field that this program does not know.

Each API group is a package of its name: ``admissionregistration``, ``apiextensions``,
``apiserverinternal``, ``apps``, ``authentication``, ``authorization``, ``autoscaling``,
``batch``, ``certificates``, ``coordination``, ``core``, ``custom_metrics``,
``discovery``, ``external_metrics``, ``metrics``, ``networking``, ``policy``, ``rbac``,
``scheduling``, ``storage``, ``storagemigration``, and ``dynamicresources``
(resource.k8s.io). The other modules:

- ``conditions``: conditions of the form metav1.Condition
- ``intstr``: int-or-percent values
- ``json_objects``: reads decoded JSON that is not validated
- ``meta``: metadata, and the bases of all types
- ``names``: checks of names
- ``nulls``: reads null as Go does
- ``numbers``: whole numbers as Go reads them
- ``owners``: owner references
- ``pods``: the state of a pod
- ``quantity``: quantities such as ``100m``
- ``raw_fields``: fields that are kept as bytes
- ``resource``: the URL path and the type of each kind
- ``selectors``: label selectors
- ``times``: times, parsed and formatted as Go does
- ``workloads``: the fields that all kinds with replicas have
"""
