"""The nodes of a development cluster: a simulated scheduler and simulated kubelets.

They change objects in the API server of the same process, and run no containers.
"""
