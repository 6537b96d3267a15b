"""Go's texts of values that upstream puts into messages."""

from controller_manager.api.selectors import LabelSelector, format_selector


def described(selector: LabelSelector | None) -> str:
    """Return a selector as Go prints it with ``%+v``; it is part of metrics' names."""
    if selector is None:
        return "nil"
    labels = "".join(
        f"{key}: {value},"
        for key, value in sorted((selector.match_labels or {}).items())
    )
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},"
        f"Values:[{' '.join(each.values or ())}],}},"
        for each in selector.match_expressions or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def query_of(selector: LabelSelector | None) -> str:
    """Return a metric's selector as the query of a request; without one it is empty."""
    return "" if selector is None else format_selector(selector)


def quoted(text: str) -> str:
    """Return `text` as Go prints it with ``%q``."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
