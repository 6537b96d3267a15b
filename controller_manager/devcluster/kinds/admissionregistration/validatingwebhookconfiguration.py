"""ValidatingWebhookConfiguration: webhooks that may refuse a write."""

from typing import Final

from controller_manager.devcluster.kinds.admissionregistration.webhook_strategy import (
    WebhookConfigurationStrategy,
)
from controller_manager.devcluster.kinds.built_in import kind_of

KIND: Final = kind_of(
    "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    WebhookConfigurationStrategy(mutates=False),
)
