"""The verbs of HTTP on resources (k8s.io/apiserver/pkg/endpoints/handlers).

``reading`` answers GET, ``deleting`` DELETE, ``writing`` POST, ``updating`` PUT and
PATCH: ``patch`` and ``applying`` are the kinds of PATCH. ``writing`` also repeats each
request to write that waits for admission.
"""
