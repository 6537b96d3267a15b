"""PATCH: the media types of patches, and the refusals."""

from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.patches import (
    PatchError,
    TooMuchError,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from controller_manager.devcluster.scheme.statuses import (
    Refusal,
    bad_request,
    unsupported_media_type,
)
from controller_manager.devcluster.server.rest.kind import Kind

APPLY: Final = "application/apply-patch+yaml"
_PATCH_TYPES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


def check_patch_type(content_type: str, kind: Kind) -> None:
    """Raise Refusal 415 if a kind does not accept a patch of that type."""
    known = _PATCH_TYPES if kind.strategy.merges_strategically else _PATCH_TYPES[:-1]
    if content_type not in (*known, APPLY):
        raise unsupported_media_type("415: Unsupported Media Type", {})


def patched(obj: JSON, patch: Any, content_type: str, kind: Kind) -> JSON:
    """Return an object, or its scale, changed by a patch; raises Refusal."""
    try:
        match content_type:
            case "application/json-patch+json":
                result = json_patch(obj, patch)
            case "application/merge-patch+json":
                result = merge_patch(obj, patch)
            case _:
                result = strategic_merge_patch(obj, patch, kind.type_name or "")
    except TooMuchError as error:
        message = f"Request entity too large: {error}"
        raise Refusal(413, "RequestEntityTooLarge", message) from None
    except PatchError:
        message = "the server rejected our request due to an error in our request"
        raise Refusal(422, "Invalid", message, {}) from None
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        message = f"a patch must leave a {kind.kind} behind"
        raise bad_request(message)
    return result
