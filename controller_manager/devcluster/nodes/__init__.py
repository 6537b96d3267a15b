"""The nodes of a development cluster: a scheduler and kubelets that only pretend.

They work on the API server in the same process, and run no containers.
"""
