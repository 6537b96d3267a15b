"""The images of containers: their names, and how pulling them fails.

Upstream: pkg/kubelet/images, pkg/util/parsers; the names of
github.com/distribution/reference.
"""

import re
from functools import lru_cache
from hashlib import sha256
from typing import Final

from controller_manager.api.json_objects import JSON

_BROKEN: Final = "broken"
"""Images whose name begins with this can never be pulled."""

_NO_REGISTRY: Final = re.compile(r"(?:invalid\.[^/]*|[^/]+\.invalid(?::\d+)?)/")
"""The beginning of images whose registry nobody can have (RFC 2606)."""

_MAX_NAME: Final = 255
_KEPT: Final = 1024
"""The images whose facts are kept: the pods of a cluster share few of them."""

_HOST: Final = (
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::\d+)?"
)
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME: Final = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[a-zA-Z][a-zA-Z0-9]*(?:[-_+.][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,}))?"
)


@lru_cache(_KEPT)
def why_invalid(image: str) -> str:
    """Return why a text is no name of an image, empty if it is one."""
    if len(image) > _MAX_NAME * 4:
        return "repository name must not be more than 255 characters"
    if _NAME.fullmatch(image):
        return ""
    if _NAME.fullmatch(image.lower()):
        path = image.partition(":")[0]
        full = path if "/" in path else f"library/{path}"
        return f"invalid reference format: repository name ({full}) must be lowercase"
    return "invalid reference format"


def invalid_name_message(image: str) -> str:
    """Return the kubelet's message about the name of an image, "" if it is valid."""
    why = why_invalid(image)
    if not why:
        return ""
    return (
        f'Failed to apply default image tag "{image}": couldn\'t parse image name '
        f'"{image}": {why}'
    )


def is_broken(container: JSON) -> bool:
    """Tell whether the image of a container cannot be pulled.

    A node has no registry of its own. So an image such as ``localhost/app`` is never
    pulled, and is there only if it need not be pulled.
    """
    image = container["image"]
    if image.rpartition("/")[2].startswith(_BROKEN) or _NO_REGISTRY.match(image):
        return True
    return image.startswith("localhost/") and pull_policy(container) == "Always"


def pull_error(image: str) -> str:
    """Return containerd's message about an image that no registry has."""
    full = full_name(image)
    return (
        "rpc error: code = NotFound desc = failed to pull and unpack image "
        f'"{full}": failed to resolve image: {full}: not found'
    )


def full_name(image: str) -> str:
    """Return the name of an image with its registry and its tag."""
    first, slash, _ = image.partition("/")
    has_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    if not has_host:
        image = f"docker.io/{image}" if slash else f"docker.io/library/{image}"
    is_tagged = "@" in image or ":" in image.rpartition("/")[2]
    return image if is_tagged else f"{image}:latest"


@lru_cache(_KEPT)
def image_id(image: str) -> str:
    """Return the imageID of an image: its name with a digest."""
    full = full_name(image)
    if "@" in full:
        return full
    name = full.rpartition(":")[0]
    return f"{name}@sha256:{sha256(full.encode()).hexdigest()}"


@lru_cache(_KEPT)
def size_of(image: str) -> int:
    """Return an invented size of an image, in bytes."""
    return 1_000_000 + int(sha256(image.encode()).hexdigest()[:6], 16) * 4


def pull_policy(container: JSON) -> str:
    """Return the policy that the API server has filled in."""
    return str(container.get("imagePullPolicy", "IfNotPresent"))
