"""kube-controller-manager in Python.

The packages, top to bottom; imports point down only and import-linter holds it:

``devcluster`` → ``cli`` → ``doctor`` and ``explain`` → ``manager`` → ``registry``
→ ``controllers`` → ``control`` → ``runtime`` → ``serving`` → ``informers``
→ ``preview`` → ``client`` → ``workqueue`` → ``observability`` → ``options`` → ``api``
→ ``clock``, ``schedules``, ``upstream``, ``urls``, ``version`` and ``yaml_files``.

Each package's ``__init__`` says what belongs there and what must never enter.
"""
