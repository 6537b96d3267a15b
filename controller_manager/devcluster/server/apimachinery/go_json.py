"""The error messages of Go's encoding/json for a body that is not JSON."""

import json
from typing import Final

_ENDINGS: Final = (
    ("Expecting property name", "looking for beginning of object key string"),
    ("Expecting value", "looking for beginning of value"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after object key:value pair"),
    ("Extra data", "after top-level value"),
    ("Invalid control character", "in string literal"),
    ("Illegal trailing comma", "looking for beginning of value"),
)


def go_json_error(body: bytes) -> str:
    """Return encoding/json's message for a body that is not JSON."""
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc):
            return "unexpected end of JSON input"
        character = error.doc[error.pos]
        ending = next(
            (text for start, text in _ENDINGS if error.msg.startswith(start)),
            "looking for beginning of value",
        )
        return f"invalid character '{character}' {ending}"
    except UnicodeDecodeError as error:
        return f"invalid character '\\x{body[error.start]:02x}' in string literal"
    except RecursionError:
        return "exceeded max depth"
    return "invalid JSON"
