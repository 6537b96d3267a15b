"""What the controllers of certificate requests share.

``pem`` reads PEM, ``request`` the PKCS#10 request in it; ``kubelet`` has the rules for
certificates of kubelets; ``conditions`` tells what has become of a request;
``permissions`` is the role of their common service account.
"""
