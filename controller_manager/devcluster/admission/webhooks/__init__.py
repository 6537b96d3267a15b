"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

``hooks`` reads the configurations, ``review`` makes the question and reads the
answer, ``calls`` asks over HTTPS, ``services`` finds the addresses of a service,
``failures`` says why a call failed, ``outcomes`` what an answer means for the write;
``mutating`` and ``validating`` are the plugins.
Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook.
"""
