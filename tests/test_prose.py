"""The check of prose finds riddles, and the tree has none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import prose


def found(text: str, *allowed: str) -> list[tuple[int, str, str]]:
    """Return line, rule and sentence of each finding in a text."""
    texts = iter([prose.Text(Path("a.py"), 1, text)])
    return [
        (each.line, each.rule, each.sentence)
        for each in prose.findings(texts, frozenset(allowed))
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "What is no object stays as it is.",
        "Whether a pod may run on a node.",
        "Nobody else writes it.",
        "Which pods are deleted first (ActivePods).",
    ],
)
def test_a_statement_does_not_begin_with_a_question_word(sentence: str) -> None:
    """It begins with the subject, or with a verb."""
    rule = "begin with the subject or a verb"
    assert found(sentence)[0] == (1, rule, sentence)
    assert found(f"Return it.\n\n{sentence}")[0] == (3, rule, sentence)


def test_a_phrase_that_stands_for_a_name_is_found_where_it_stands() -> None:
    """The sentence is shown on one line."""
    text = "Return it.\n\nIt is\nwhat it was."
    assert found(text) == [(4, "name the thing or the person", "It is what it was.")]


@pytest.mark.parametrize(
    "sentence",
    [
        "Which pods are deleted first?",
        "How to build the image",
        "The field ``what is it`` is empty.",
        "Return the name of the pod, which the scheduler has chosen.",
    ],
)
def test_questions_quotations_and_clauses_are_allowed(sentence: str) -> None:
    """They are no riddles."""
    assert found(sentence) == []


def test_an_exception_is_a_whole_sentence() -> None:
    """The same phrase in another sentence is found."""
    sentence = "it is unclear who has it."
    assert found(sentence, sentence) == []
    assert len(found(f"Now {sentence}", sentence)) == 1


def test_docstrings_comments_messages_and_test_names_of_a_module_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data in strings of tests is not."""
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    source = '''"""Module."""\n\nA = 1\n"""Constant."""\n\n# One\n# two.\n
def test_pods_are_kept() -> None:
    """Function."""
    raise ValueError("this is a whole message")
'''

    def lines(name: str) -> Iterator[tuple[int, str]]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        for each in prose.texts_of_python(path):
            yield each.line, each.text

    of_code = {
        (1, "Module."),
        (4, "Constant."),
        (6, "One\ntwo."),
        (9, "pods are kept"),
        (10, "Function."),
        (11, "this is a whole message"),
    }
    assert set(lines("package/a.py")) == of_code
    assert set(lines("tests/a.py")) == of_code - {(11, "this is a whole message")}


def test_code_in_documents_is_not_read(tmp_path: Path) -> None:
    """Headings and rows of tables are."""
    path = tmp_path / "a.md"
    path.write_text("# Title\n\n```\nWhat is it.\n```\n\nWhat is it.\n")
    texts = prose.texts_of_document(path)
    assert [each.line for each in prose.findings(texts, frozenset())] == [7]


@pytest.mark.slow
def test_the_tree_has_no_riddles() -> None:
    """``python -m tests.prose`` shows the findings; each exception is needed."""
    texts = prose.texts(prose.files())
    found = list(prose.findings(texts, frozenset()))
    allowed = prose.exceptions()
    assert [str(each) for each in found if each.sentence not in allowed] == []
    assert allowed - {each.sentence for each in found} == frozenset()
