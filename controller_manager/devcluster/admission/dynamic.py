"""The plugins that objects of the cluster configure: webhooks and policies."""

import random
from collections.abc import Mapping

from controller_manager.devcluster.server.rest.admission import Plugin
from controller_manager.devcluster.server.security.authorization import Authorizer
from controller_manager.devcluster.server.storage.storage import Storage

from .matching import Kinds
from .policies.bindings import Policies
from .policies.mutating import MutatingAdmissionPolicy
from .policies.validating import ValidatingAdmissionPolicy
from .webhooks.answers import Webhooks
from .webhooks.mutating import MutatingAdmissionWebhook
from .webhooks.validating import ValidatingAdmissionWebhook

_GROUP = "admissionregistration.k8s.io"


def dynamic_plugins(
    storage: Storage, kinds: Kinds, authorizer: Authorizer, rng: random.Random
) -> Mapping[str, Plugin]:
    """Return the plugins by their names.

    `kinds` returns all kinds of the server, expressions use `authorizer`, `rng`
    generates the uids of reviews.
    """
    mutating, validating = (
        Webhooks(
            f"{name}webhookconfigurations.{_GROUP}", storage, kinds, authorizer, rng
        )
        for name in ("mutating", "validating")
    )
    mutated, validated = (
        Policies(
            storage.collection(f"{name}admissionpolicies.{_GROUP}"),
            storage.collection(f"{name}admissionpolicybindings.{_GROUP}"),
            storage,
            kinds,
        )
        for name in ("mutating", "validating")
    )
    plugins: tuple[Plugin, ...] = (
        MutatingAdmissionPolicy(mutated, authorizer),
        MutatingAdmissionWebhook(mutating),
        ValidatingAdmissionPolicy(validated, authorizer),
        ValidatingAdmissionWebhook(validating),
    )
    return {each.name: each for each in plugins}
