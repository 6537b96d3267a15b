"""Controllers declare their options as classes, each attribute a flag."""

import pytest

from controller_manager.options.controller_options import (
    ControllerOptions,
    flags_of,
    make_options,
    option,
)
from controller_manager.options.flag import Flag, FlagType
from controller_manager.options.flag_set import DuplicateFlag, FlagSet


class Sample(ControllerOptions):
    """One attribute of each kind."""

    count: int = option("sample-count", "int32", "3", "How many.")
    period: float = option("sample-period", "duration", "1m30s", "How often.")
    names: tuple[str, ...] = option("sample-names", "strings", "a,b", "Which.")
    rates: dict[str, str] = option("sample-rates", "pairs", None, "How fast.")


def test_without_arguments_options_have_the_defaults_of_their_flags() -> None:
    defaults = Sample()
    assert (defaults.count, defaults.period) == (3, 90.0)
    assert (defaults.names, defaults.rates) == (("a", "b"), {})
    assert defaults == Sample(3, 90.0, ("a", "b"), {}) != Sample(count=4)
    assert repr(Sample(4)) == "Sample(count=4, period=90.0, names=('a', 'b'), rates={})"


def test_options_are_made_of_the_values_of_their_flags() -> None:
    values = {
        "sample-count": 5,
        "sample-period": "2s",
        "sample-names": ["c"],
        "sample-rates": {"d": "1"},
    }
    made = make_options(Sample, values.__getitem__)
    assert made == Sample(count=5, period=2.0, names=("c",), rates={"d": "1"})


def test_options_cannot_be_changed() -> None:
    """They are shared by all that read them."""
    with pytest.raises(AttributeError, match=r"^Sample\.count cannot be changed to 4$"):
        Sample().count = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="has only count, period, names, rates"):
        Sample(other=1)  # type: ignore[call-arg]


def test_flags_stand_in_the_section_of_their_controller() -> None:
    assert [(each.section, each.path) for each in flags_of(Sample, "a-controller")] == [
        ("A-controller", "AController.SampleCount"),
        ("A-controller", "AController.SamplePeriod"),
        ("A-controller", "AController.SampleNames"),
        ("A-controller", "AController.SampleRates"),
    ]


@pytest.mark.parametrize(
    ("type_", "default"), [("duration", None), ("duration", "soon"), ("int32", None)]
)
def test_a_default_is_a_value_of_its_type(type_: FlagType, default: str | None) -> None:
    with pytest.raises(
        ValueError, match=r"^--sample-bad: .* is no default of the type"
    ):
        type(
            "Bad",
            (ControllerOptions,),
            {"bad": option("sample-bad", type_, default, "Bad.")},
        )


@pytest.mark.parametrize(
    ("one", "other", "problem"),
    [
        ("My.Interval", "My.Interval", "which is one of --sample-one"),
        ("My.Interval", "My", "My.Interval of --sample-one is inside of My"),
        ("My.Interval", "Generic", "is inside of Generic"),
        ("My.Interval", "kind", "which is one of no flag"),
    ],
)
def test_a_field_of_the_configuration_file_belongs_to_one_flag(
    one: str, other: str, problem: str
) -> None:
    """Else one value would set two options, or the file could not be shown."""
    flags = (
        Flag("sample-one", "int32", "1", "One.", one, "One-controller"),
        Flag("sample-other", "int32", "1", "Other.", other, "Other-controller"),
    )
    with pytest.raises(DuplicateFlag) as caught:
        FlagSet(flags)
    assert problem in str(caught.value)


def test_a_flag_of_upstreams_keeps_its_place_in_the_configuration_file() -> None:
    name = "concurrent-service-syncs"
    flag = Flag(name, "int32", "1", "Some.", "My.Syncs", "My")
    found = FlagSet((flag,))[name]
    assert (found.path, found.section) == (
        "ServiceController.ConcurrentServiceSyncs",
        "Service-lb-controller",
    )
