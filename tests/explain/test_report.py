"""The text of an answer for a terminal."""

import json
from datetime import UTC, datetime

from controller_manager.explain.cause import Cause, Explanation, Reference, State
from controller_manager.explain.report import as_json, as_text

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEB = Reference("v1", "Pod", "default", "web")


def test_messages_of_objects_cannot_control_the_terminal() -> None:
    """Anybody who may write a status chooses them: they may hide or forge lines."""
    cause = Cause(
        code="Message",
        state=State.STUCK,
        what="pull \x1b[2J\x9b1A\x07denied \u202eoh\nRemedy: none",
        object=WEB,
        field="status.conditions[\x1b]",
    )
    found = Explanation(
        object=WEB,
        state=State.STUCK,
        summary="its phase is \x1b]0;owned\x07\nPod default/db is healthy",
        causes=(cause,),
        unread=("pods: \x1b[8m",),
    )
    first, *others = as_text([found], NOW, 100).split("\n")
    assert first == (
        "Pod default/web is stuck: its phase is \\x1b]0;owned\\x07\\nPod default/db "
        "is healthy"
    )
    assert others == [
        "",
        "Pull \\x1b[2J\\x9b1A\\x07denied \\u202eoh Remedy: none.",
        "    [Message] Pod default/web, status.conditions[\\x1b]",
        "",
        "Not read, so causes may be missing:",
        "  - pods: \\x1b[8m",
        "",
    ]


def test_letters_of_all_languages_stay_as_they_are() -> None:
    """Only characters that are not printable are escaped."""
    found = Explanation(
        object=WEB, state=State.HEALTHY, summary="\u00fcber \u65e5\u672c"
    )
    expected = "Pod default/web is healthy: \u00fcber \u65e5\u672c\n"
    assert as_text([found], NOW, 80) == expected


def test_json_has_escapes_for_characters_that_are_not_printable() -> None:
    """Programs that print a text of it find the same text; a terminal is safe."""
    summary = "\x9b1A \u202eoh \U000e0041 \u00fcber"
    found = Explanation(object=WEB, state=State.HEALTHY, summary=summary)
    document = as_json([found])
    assert all(each.isprintable() or each == "\n" for each in document)
    assert json.loads(document)["explanations"][0]["summary"] == summary
    assert "\\u009b1A \\u202eoh \\udb40\\udc41 \u00fcber" in document
