"""The annotation of a daemon set that counts the changes of its template."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import bad_request

_ANNOTATION: Final = "deprecated.daemonset.template.generation"


def template_generation(obj: JSON) -> int:
    """Return the count, 0 if there is none; raises Refusal for any other text."""
    text = obj["metadata"].get("annotations", {}).get(_ANNOTATION, "0")
    try:
        return int(text)
    except ValueError:
        why = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise bad_request(why) from None


def set_template_generation(obj: JSON, count: int) -> None:
    """Write the count."""
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations[_ANNOTATION] = str(count)
