"""Bootstrap tokens for tests."""

from controller_manager.api.json_objects import JSON
from tests.controllers.hands import Hands

TYPE = "bootstrap.kubernetes.io/token"
TOKEN_SECRET = "0123456789abcdef"


def bootstrap_token(token_id: str, expiration: str = "", **more: str) -> JSON:
    data = {
        "token-id": token_id,
        "token-secret": TOKEN_SECRET,
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
        **({"expiration": expiration} if expiration else {}),
        **{key.replace("_", "-"): value for key, value in more.items()},
    }
    name = f"bootstrap-token-{token_id}"
    return {"metadata": {"name": name}, "type": TYPE, "stringData": data}


def add_token(cluster: Hands, secret: JSON, namespace: str = "kube-system") -> None:
    kind = cluster.server.catalogue.find("", "v1", "secrets")
    assert kind is not None
    cluster.server.objects.create(kind, namespace, secret)
