"""How many replicas a metric asks for; pure.

``samples`` is what the metrics and the cache say about the pods, ``requests`` what they
request, ``groups`` which of them count, ``judging`` how metrics are judged, ``amounts``
the arithmetic of Go, and ``compute`` the number.
"""
