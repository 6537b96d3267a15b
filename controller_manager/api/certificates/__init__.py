"""The group certificates.k8s.io.

``v1`` has certificate signing requests; ``v1beta1`` has trust bundles and requests of
pods.
"""
