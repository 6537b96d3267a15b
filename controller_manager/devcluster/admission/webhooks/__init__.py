"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

``hooks`` reads the configurations, ``review`` makes a review and reads its answer,
``answers`` finds the answers for a write and calls webhooks, ``outcomes`` has the
refusals; ``mutating`` and ``validating`` are the plugins. Upstream:
k8s.io/apiserver/pkg/admission/plugin/webhook.
"""
