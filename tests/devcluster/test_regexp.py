"""Patterns in the syntax of Go: their matches, and invalid patterns."""

import pytest

from controller_manager.devcluster.scheme.names import Pattern, PatternProblem


@pytest.mark.parametrize(
    ("pattern", "matched", "missed"),
    [
        ("", ["", "a"], []),
        ("b", ["abc"], ["", "ac"]),
        ("^(a|bc)+$", ["a", "bc", "abca"], ["", "b", "abcd"]),
        ("^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]),
        ("^a{2,}?b??$", ["aa", "aaab"], ["a"]),
        ("^a{,2}$", ["a{,2}"], ["aa"]),
        ("^x{$", ["x{"], ["x"]),
        (r"^[a-c\d\-]+$", ["a1-"], ["d", ""]),
        ("^[]a]$", ["]", "a"], ["b"]),
        ("^[^a\\n]$", ["b"], ["a", "\n"]),
        ("^[[:alpha:][:^print:]]$", ["x", "\x01"], ["1"]),
        (r"^\w+\s\W$", ["ab_1 -"], ["é -"]),
        (r"^\pL\p{Lu}\P{N}$", ["éÉx"], ["éé1"]),
        (r"^\p{^L}$", ["1"], ["a"]),
        (r"^\p{Greek}$", ["δ"], ["d"]),
        ("^.$", ["é"], ["\n", ""]),
        ("(?s)^.$", ["\n"], []),
        ("(?i)^straße$", ["STRAßE"], ["strasse"]),
        ("^(?i:a)b$", ["Ab"], ["AB"]),
        ("(?m)^b$", ["a\nb\nc"], ["ab"]),
        (r"\bcat\b", ["a cat!"], ["concatenate"]),
        (r"\Bat", ["cat"], ["at"]),
        (r"\Aa\z", ["a"], ["a\n"]),
        (r"^\Qa.b\E+$", ["a.bb"], ["axb"]),
        (r"^\Q\C\E\\C$", ["\\C\\C"], ["C"]),
        (r"^\x41\x{1F600}\101\t$", ["A\U0001f600A\t"], []),
        (r"^(?P<name>a)(?<other>b)(?:c)$", ["abc"], []),
        (r"^(?i-s:[^a])$", ["b"], ["A"]),
    ],
)
def test_a_pattern_matches_as_in_go(
    pattern: str, matched: list[str], missed: list[str]
) -> None:
    compiled = Pattern(pattern)
    assert [each for each in matched + missed if compiled.matches(each)] == matched


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a(", "missing closing ): `a(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("x{2,1}", "invalid repeat count: `{2,1}`"),
        ("*?", "missing argument to repetition operator: `*?`"),
        ("(a{500}){500}", "invalid repeat count: `{500}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<=a)", "invalid or unsupported Perl syntax: `(?<=`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\p{Klingon}", r"invalid character class range: `\p{Klingon}`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"a\C", r"invalid escape sequence: `\C`"),
        ("(?P<n->a)", "invalid named capture: `(?P<n->`"),
        ("(" * 3000, "missing closing ): `" + "(" * 3000 + "`"),
    ],
)
def test_what_go_refuses_is_refused_with_its_text(pattern: str, problem: str) -> None:
    with pytest.raises(PatternProblem) as refusal:
        Pattern(pattern)
    assert str(refusal.value) == f"error parsing regexp: {problem}"


@pytest.mark.parametrize(
    "pattern", ["(x+x+)+y", "(x|x)*y", "^((x+)+)+$|y", "(x?){30}x{30}y"]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """Python's `re` would need years for some of these."""
    text = "x" * 3000 + "!"
    assert Pattern(pattern).matches(text) is False


def test_a_pattern_that_would_fill_the_memory_is_refused() -> None:
    """Each repetition has its own part of the program."""
    pattern = r"(\pL\pN){1000}" * 3
    with pytest.raises(PatternProblem) as refusal:
        Pattern(pattern)
    assert str(refusal.value) == (
        f"error parsing regexp: expression too large: `{pattern}`"
    )
