"""Calls of webhooks: for admission, and for the conversion of custom resources.

``client`` sends requests over HTTPS, ``services`` finds the addresses of a service,
``failures`` names the reasons of failed calls. Upstream: k8s.io/apiserver's
pkg/util/webhook.
"""
