"""Requests and answers: paths, headers, bodies, and the forms of answers.

- Requests: ``routing`` (from a path to a target), ``request_info`` (attributes),
  ``deadlines``, ``negotiation`` (bodies), ``connections`` (exec, attach, proxy).
- Answers: ``accepting`` (the header Accept), ``responses``, ``rendering`` (lists and
  tables), ``presenting`` (YAML and indented JSON), ``document`` (paths that are no
  resources), ``request_metrics``.
"""
