"""Pod Security Standards: three levels of what a pod may ask for.

Upstream: k8s.io/pod-security-admission. `levels` reads the labels of namespaces,
`checks` has the type of a check, the modules ``*_checks`` have the checks themselves,
`evaluation` applies those of a level and version.
"""
