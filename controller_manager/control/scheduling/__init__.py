"""Which pod may run on which node, decided as kube-scheduler does.

``affinity`` has node selectors and required node affinity, ``taints`` has taints and
tolerations; both compile what a pod says, so that many nodes can be checked quickly.
All functions are pure. Upstream: k8s.io/component-helpers/scheduling/corev1.
"""
