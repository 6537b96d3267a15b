"""Pod Security Standards: three levels of the fields that a pod may have.

``levels`` reads the labels of namespaces, ``checks`` has the type of a check,
``baseline_checks``, ``host_checks`` and ``restricted_checks`` have the checks,
``evaluation`` applies those of a level and version, ``plugin`` is the plugin. Upstream:
k8s.io/pod-security-admission.
"""
