"""Rules that the controllers of certificate signing requests share.

``pem`` reads PEM; ``request`` parses a PKCS#10 request; ``kubelet`` validates requests
for certificates of kubelets; ``conditions`` reads the conditions of a request;
``backoff`` has the delays between retries; ``permissions`` has the role of the
service account that the controllers share.
"""
