"""Names of container images, as the API server reads them.

Upstream: ParseImageName of pkg/util/parsers, and ParseNormalizedNamed of the module
github.com/distribution/reference.
"""

import re
from typing import Final

LATEST: Final = "latest"

_LONGEST: Final = 1024
"""Characters; longer texts are no names of images."""

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[A-Fa-f0-9:]+\])(?::\d+)?"
_PATH: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DIGEST: Final = r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}"
_IMAGE: Final = re.compile(
    rf"(?:{_DOMAIN}/)?{_PATH}(?:/{_PATH})*(?::([\w][\w.-]{{0,127}}))?(@(?:{_DIGEST}))?",
    re.ASCII,
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")


def tag_of(image: str) -> str:
    """Return the tag of an image; "latest" if it has neither a tag nor a digest.

    "" for an image with only a digest, and for a text that is no name of an image.
    """
    if len(image) > _LONGEST or _IDENTIFIER.fullmatch(image) is not None:
        return ""
    found = _IMAGE.fullmatch(image)
    if found is None:
        return ""
    return found[1] or ("" if found[2] else LATEST)
