"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

``hooks`` reads the configurations, ``review`` makes a review and reads its answer,
``answers`` finds the answers for a write and calls webhooks, ``calls`` sends requests
over HTTPS, ``services`` finds the addresses of a service, ``failures`` names the
reasons of failed calls, ``outcomes`` has the refusals; ``mutating`` and ``validating``
are the plugins. Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook.
"""
