"""Requests and answers: paths, headers, bodies, and the forms of answers.

- Requests: ``request_info`` (target, attributes, deadline), ``negotiation`` (media
  types of bodies), ``object_bodies`` (their objects), ``connections`` (exec, attach,
  proxy).
- Answers: ``accepting`` (the header Accept), ``responses`` (headers and encodings),
  ``rendering`` (lists and tables), ``document`` (paths that are no resources),
  ``request_metrics``.
"""
