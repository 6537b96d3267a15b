"""Text of objects for a terminal: no character in it hides or forges a line."""


def printable(line: str) -> str:
    """Return a line in which characters that are not printable are escaped.

    Messages of objects have any characters: escape sequences, line ends, marks that
    change the direction of the text.
    """
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in line
    )


def printable_json(document: str) -> str:
    r"""Return a JSON document in which such characters in texts are ``\u`` escapes.

    It means the same as before. Between texts, JSON has no other characters than
    spaces and line ends.
    """
    return "".join(
        each if each.isprintable() or each == "\n" else _escaped(each)
        for each in document
    )


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    pairs = (units[index : index + 2] for index in range(0, len(units), 2))
    return "".join(f"\\u{int.from_bytes(pair):04x}" for pair in pairs)
