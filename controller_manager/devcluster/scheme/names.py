"""Names, labels, annotations and owners of objects; regular expressions of Go."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import re2

from controller_manager.api.json_objects import JSON

from .statuses import Cause, forbidden_field, invalid, required, shown, too_long

# Validation of metadata: names, labels, annotations, owners (apimachinery
# validation).

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_WILDCARD: Final = re.compile(rf"\*\.{_SUBDOMAIN.pattern}")
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
    "characters, '-' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_WILDCARD_TEXT: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS "
    "subdomain, which must consist of lower case alphanumeric characters, '-' or '.' "
    "and end with an alphanumeric character (e.g. '*.example.com', regex used for "
    f"validation is '{_WILDCARD.pattern}')"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters "
    "or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  "
    "or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SERVICE_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character "
    "(e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, "
    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
    "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NAME_PART_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
    "'123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    "'[-._a-zA-Z0-9]+')"
)

_MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253


def validate_subdomain(name: str, field: str) -> list[Cause]:
    """Check a name that must be a DNS subdomain, as for most kinds."""
    return _checked(name, field, _SUBDOMAIN, _MAX_SUBDOMAIN, _SUBDOMAIN_TEXT)


def validate_host(name: str, field: str) -> list[Cause]:
    """Check the name of a host, which may begin with ``*.``."""
    if "*" not in name:
        return validate_subdomain(name, field)
    return _checked(name, field, _WILDCARD, _MAX_SUBDOMAIN, _WILDCARD_TEXT)


def validate_label(name: str, field: str) -> list[Cause]:
    """Check a name that must be a DNS label."""
    return _checked(name, field, _LABEL, _MAX_LABEL, _LABEL_TEXT)


def is_label(name: str) -> bool:
    """Tell whether a name is a DNS label."""
    return len(name) <= _MAX_LABEL and _LABEL.fullmatch(name) is not None


def not_a_label(name: str, field: str) -> Cause:
    """Return the cause that a name is no DNS label."""
    return invalid(field, shown(name), _LABEL_TEXT)


def validate_service_name(name: str, field: str) -> list[Cause]:
    """Check a name that must be a DNS label beginning with a letter."""
    return _checked(name, field, _SERVICE, _MAX_LABEL, _SERVICE_TEXT)


def validate_path_segment(name: str, field: str) -> list[Cause]:
    """Check a name that may be any segment of a path."""
    if name in (".", ".."):
        return [invalid(field, shown(name), f"may not be '{name}'")]
    return [
        invalid(field, shown(name), f"may not contain '{each}'")
        for each in "/%"
        if each in name
    ]


def service_name_problems(name: str) -> list[str]:
    """Return why a name is no DNS label that begins with a letter."""
    return _problems(name, _SERVICE, _MAX_LABEL, _SERVICE_TEXT)


def subdomain_problems(name: str) -> list[str]:
    """Return why a name is no DNS subdomain."""
    return _problems(name, _SUBDOMAIN, _MAX_SUBDOMAIN, _SUBDOMAIN_TEXT)


def validate_config_key(key: str, field: str) -> list[Cause]:
    """Check the key of a config map or of a secret."""
    return [invalid(field, shown(key), why) for why in _key_problems(key)]


def _key_problems(key: str) -> list[str]:
    """Return the errors in a key of data (IsConfigMapKey of apimachinery)."""
    problems = []
    if len(key) > _MAX_SUBDOMAIN:
        problems.append(f"must be no more than {_MAX_SUBDOMAIN} characters")
    if not _KEY.fullmatch(key):
        problems.append(_KEY_TEXT)
    if key in (".", ".."):
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def _checked(
    name: str, field: str, pattern: re.Pattern[str], longest: int, text: str
) -> list[Cause]:
    return [
        invalid(field, shown(name), detail)
        for detail in _problems(name, pattern, longest, text)
    ]


def _problems(
    name: str, pattern: re.Pattern[str], longest: int, text: str
) -> list[str]:
    problems = []
    if len(name) > longest:
        problems.append(f"must be no more than {longest} characters")
    if not pattern.fullmatch(name):
        problems.append(text)
    return problems


def validate_labels(labels: JSON, field: str) -> list[Cause]:
    """Check the keys and values of labels."""
    causes = []
    for key, value in labels.items():
        causes += validate_qualified_name(key, field)
        if len(value) > _MAX_LABEL:
            detail = f"must be no more than {_MAX_LABEL} bytes"
            causes.append(invalid(field, shown(value), detail))
        elif value and not _QUALIFIED.fullmatch(value):
            causes.append(invalid(field, shown(value), _LABEL_VALUE_TEXT))
    return causes


def validate_annotations(annotations: JSON, field: str) -> list[Cause]:
    """Check the keys of annotations, and their total size."""
    causes = [
        cause
        for key in annotations
        for cause in validate_qualified_name(key.lower(), field)
    ]
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > 256 * 1024:
        causes.append(too_long(field, 256 * 1024))
    return causes


def validate_qualified_name(key: str, field: str) -> list[Cause]:
    """Check a name that may have a DNS subdomain and a slash before it."""
    prefix, slash, name = key.rpartition("/")
    causes = []
    if slash and not _SUBDOMAIN.fullmatch(prefix):
        causes.append(invalid(field, shown(key), f"prefix part {_SUBDOMAIN_TEXT}"))
    if not _QUALIFIED.fullmatch(name):
        causes.append(invalid(field, shown(key), _NAME_PART_TEXT))
    elif len(name) > _MAX_LABEL:
        detail = f"name part must be no more than {_MAX_LABEL} bytes"
        causes.append(invalid(field, shown(key), detail))
    return causes


_IMMUTABLE: Final = "field is immutable"


def validate_metadata(
    metadata: JSON, validate_name: Callable[[str], list[Cause]]
) -> list[Cause]:
    """Check the metadata of a new object."""
    causes: list[Cause] = []
    name, generated = metadata.get("name", ""), metadata.get("generateName", "")
    if not name and not generated:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif name:
        causes += validate_name(name)
    causes += validate_labels(metadata.get("labels", {}), "metadata.labels")
    causes += validate_annotations(
        metadata.get("annotations", {}), "metadata.annotations"
    )
    return causes + _owners(metadata.get("ownerReferences", []))


def _owners(references: list[JSON]) -> list[Cause]:
    field = "metadata.ownerReferences"
    causes = []
    controllers: list[str] = []
    for reference in references:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(name):
                where = f"{field}.{name}"
                value = shown(reference.get(name, ""))
                causes.append(invalid(where, value, "must not be empty"))
        if reference.get("controller"):
            controllers.append(f"{reference.get('kind')}/{reference.get('name')}")
    if len(controllers) > 1:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in '
            f"references for {controllers[0]} and {controllers[1]}"
        )
        causes.append(invalid(field, shown(references), detail))
    return causes


def validate_metadata_update(old: JSON, new: JSON) -> list[Cause]:
    """Check the changes that an update makes to metadata."""
    causes = []
    if (old.get("finalizers") or new.get("finalizers")) and old.get(
        "deletionTimestamp"
    ):
        added = [
            each
            for each in new.get("finalizers", [])
            if each not in old.get("finalizers", [])
        ]
        if added:
            listed = ", ".join(f'"{each}"' for each in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.append(forbidden_field("metadata.finalizers", detail))
    for name in ("name", "namespace", "uid"):
        if new.get(name, "") != old.get(name, ""):
            where = f"metadata.{name}"
            causes.append(invalid(where, shown(new.get(name, "")), _IMMUTABLE))
    causes += validate_labels(new.get("labels", {}), "metadata.labels")
    causes += validate_annotations(new.get("annotations", {}), "metadata.annotations")
    return causes + _owners(new.get("ownerReferences", []))


# Regular expressions as Go's package regexp has them: RE2, with the errors of Go.

_FLAWS: Final = {
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""The words of RE2 for each flaw, and those of Go."""

_MOST_BYTES: Final = 32 << 20
r"""Memory of a pattern: Go takes as much as ``\pL{1000}``."""

_ESCAPES: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)


class PatternProblem(ValueError):
    """A pattern that Go refuses, with the message of Go's parser."""

    def __init__(self, flaw: str, text: str) -> None:
        super().__init__(f"error parsing regexp: {flaw}: `{text}`")


class Pattern:
    """A pattern, ready to be matched."""

    def __init__(self, text: str) -> None:
        """Take a pattern in the syntax of Go; raises PatternProblem."""
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _MOST_BYTES
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise _problem(error.args[0].decode(), text) from None
        # RE2 lets it stand for any byte. Go does not have it.
        if r"\C" in _ESCAPES.findall(text):
            raise PatternProblem("invalid escape sequence", r"\C")

    def matches(self, text: str) -> bool:
        """Tell whether some part of the text matches."""
        return self._compiled.search(text) is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where each match begins and ends, from the left to the right.

        An empty match right after another one counts.
        """
        return (found.span() for found in self._compiled.finditer(text))


@lru_cache(maxsize=4096)
def compiled(text: str) -> Pattern:
    """Return a pattern, ready to be matched; raises PatternProblem."""
    return Pattern(text)


def _problem(message: str, pattern: str) -> PatternProblem:
    flaw, _, part = message.partition(": ")
    if flaw in _FLAWS:
        return PatternProblem(_FLAWS[flaw], part)
    return PatternProblem("expression too large", pattern)
