"""Requests for certificates, and the authorities of a cluster (SIG Auth).

``approving``, ``signing`` and ``cleaner`` handle certificate signing requests,
``podcertificaterequestcleaner`` requests of pods; ``clustertrustbundlepublisher``
publishes authorities.
"""
