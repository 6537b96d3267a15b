"""namespace-controller: empties a namespace that is being deleted, then lets it go.

``deletion`` does the work on one namespace, ``conditions`` says in its status
what is going on (pure), ``controller`` has the handlers and the sync.
"""
