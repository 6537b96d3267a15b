"""Bootstrap tokens: secrets of kube-system by which new nodes join a cluster.

Upstream: k8s.io/cluster-bootstrap, token/api and util/secrets.
"""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.times import parse_rfc3339

from .secrets import BOOTSTRAP_TOKEN, SECRETS, Secret, decoded

NAMESPACE: Final = "kube-system"
_NAME: Final = re.compile(r"bootstrap-token-([a-z0-9]{6})")

BOOTSTRAP_SECRETS: Final = replace(SECRETS, field_selector=f"type={BOOTSTRAP_TOKEN}")
"""The secrets of this type, in all namespaces; only those of kube-system count."""


def is_bootstrap_token(secret: Secret) -> bool:
    """Tell whether a secret is a bootstrap token that counts."""
    metadata = secret.metadata
    return metadata.namespace == NAMESPACE and secret.type == BOOTSTRAP_TOKEN


def token_id_of_name(name: str) -> str:
    """Return the id that the name of a secret has, "" if it has none."""
    found = _NAME.fullmatch(name)
    return found[1] if found else ""


def time_left(secret: Secret, now: datetime) -> timedelta | None:
    """Return how long a token is still valid, `None` for ever.

    A token whose expiration cannot be read has expired: 0 is left.
    """
    text = decoded(secret, "expiration")
    if not text:
        return None
    try:
        left = parse_rfc3339(text) - now
    except ValueError:
        return timedelta()
    return max(left, timedelta())
