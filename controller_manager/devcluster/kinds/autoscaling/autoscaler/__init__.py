"""The kind HorizontalPodAutoscaler in its versions.

``strategy`` has the ``KIND`` of v2, ``version_v1`` that of v1, ``v1_conversion`` and
``v1_metrics`` convert between them. ``validation`` has the rules,
``metric_targets`` is a column.
"""
