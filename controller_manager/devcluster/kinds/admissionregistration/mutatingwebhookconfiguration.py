"""MutatingWebhookConfiguration: webhooks that may change the object of a write."""

from typing import Final

from controller_manager.devcluster.kinds.built_in import kind_of

from .webhook_strategy import WebhookConfigurationStrategy

KIND: Final = kind_of(
    "admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations",
    WebhookConfigurationStrategy(mutates=True),
)
