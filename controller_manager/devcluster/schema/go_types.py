"""Names of types and values in the errors of Go."""

from typing import Any, Final

from .models import Type

_SCALARS: Final = {
    ("string", "byte"): "[]uint8",
    ("string", ""): "string",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("number", "double"): "float64",
    ("boolean", ""): "bool",
}
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def go_type(of: Type) -> str:
    """Return the name of a type in Go: its package and its name."""
    if of.items is not None:
        return f"[]{go_type(of.items)}"
    if of.values is not None:
        if of.values.ref == QUANTITY:
            return "v1.ResourceList"
        return f"map[string]{go_type(of.values)}"
    if of.ref:
        return ".".join(of.ref.rsplit(".", 2)[1:])
    return _SCALARS[of.type, of.format]


def go_kind(value: Any, wanted: str) -> str:
    """Return the word for a value of JSON that is not of the `wanted` type."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        # A whole number names a number that is no such number, or too great.
        return f"number {value}" if wanted in ("int32", "int64") else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
