"""A Kubernetes API on one machine, in memory, to run and test controllers on.

Here live the API server (a pure function from request to answer, with an HTTP
face; the in-memory face is `client.inmemory`), its storage, the kubelets that
make pods run, and the demo. Only the command line imports it, and only when it
is asked for. It knows the API, but none of the controllers.
"""
