"""Evaluates one metric of an autoscaler's spec.

``dispatch`` chooses by its type: ``resource`` (Resource and ContainerResource),
``custom`` (Pods and Object) or ``external``. Each reads the metric, computes the number
of replicas, and returns ``values``: the number, the status with its ``quantity``, or a
failure. ``wording`` has Go's texts of selectors.
"""
