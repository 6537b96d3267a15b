"""Who this process is, and whom it trusts.

Kubeconfigs, tokens, certificates, exec plugins, proxies, service accounts.
"""
