"""The kinds of the group authorization.k8s.io, one file each.

Kinds: ``localsubjectaccessreview``, ``selfsubjectaccessreview``,
``selfsubjectrulesreview``, ``subjectaccessreview``. Shared: ``access_reviews``
(answers), ``review_attributes`` (the attributes of a review), ``review_validation``
(specs).
"""
