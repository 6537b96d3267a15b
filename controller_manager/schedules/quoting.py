"""Text in quotes, as Go's ``%q`` prints it."""


def quoted(text: str) -> str:
    """Return the text in quotes; quotes, backslashes and control characters escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(map(_printable, escaped)) + '"'


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
