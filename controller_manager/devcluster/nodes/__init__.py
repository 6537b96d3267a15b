"""The nodes of a development cluster: simulated kubelets (``nodes`` starts all parts).

They change objects in the API server of the same process, and run no containers.
"""
