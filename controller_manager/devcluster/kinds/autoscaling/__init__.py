"""The kinds of the group autoscaling, one file each.

Kinds: ``horizontalpodautoscaler``, ``horizontalpodautoscaler_v1``. Shared:
``autoscaler_validation`` (specs), ``metric_validation`` (metrics), ``metric_targets``
(a column), ``v1_conversion`` (between the versions), ``v1_metrics`` (metrics in
annotations).
"""
