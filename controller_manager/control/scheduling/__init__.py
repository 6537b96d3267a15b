"""The rules by which kube-scheduler decides whether a pod may run on a node.

``affinity`` has node selectors and required node affinity, ``taints`` has taints and
tolerations. ``affinity`` compiles a pod's requirements, so that many nodes can be
checked quickly. All functions are pure. Upstream:
k8s.io/component-helpers/scheduling/corev1.
"""
