"""Requests and answers: paths, headers, bodies, and the forms of answers.

- Requests: ``request_info`` (target, attributes, deadline), ``negotiation`` (bodies),
  ``connections`` (exec, attach, proxy).
- Answers: ``accepting`` (the header Accept), ``responses`` (headers and encodings),
  ``rendering`` (lists and tables), ``document`` (paths that are no resources),
  ``request_metrics``.
"""
