"""The verbs of HTTP on resources (k8s.io/apiserver/pkg/endpoints/handlers).

``reading`` answers GET. ``writing`` answers the others: ``patch`` and ``applying`` are
the kinds of PATCH, ``attempts`` repeats a write that waits for admission.
"""
