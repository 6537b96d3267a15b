"""kube-controller-manager in Python.

The packages, top to bottom; imports point down only and import-linter holds it:

``cli`` → ``devcluster`` → ``manager`` → ``registry`` → ``controllers`` → ``control``
→ ``runtime`` → ``serving`` → ``informers`` → ``client`` → ``workqueue``
→ ``observability`` → ``options`` → ``api`` → ``clock``, ``upstream``, ``version`` and
``yaml_files``.

Each package's ``__init__`` says what belongs there and what must never enter.
"""
