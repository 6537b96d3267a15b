"""Makes the config of the log."""

from typing import Any, Literal

from .config import LoggingConfig
from .gates import LOGGING_ALPHA, FeatureGates
from .numbers import parse_level
from .options import Options


def logging_config(options: Options, features: FeatureGates) -> LoggingConfig:
    """Return the config of the log."""
    output = options["logging-format"]
    if output not in ("text", "json"):
        options.problem("logging-format", f'must be "text" or "json", not "{output}"')
        output = "text"
    form: Literal["text", "json"] = output
    if options["v"] < 0:
        options.problem("v", f"must not be negative, it is {options['v']}")
    vmodule = options.numbers("vmodule", parse_level)
    if vmodule and form != "text":
        options.problem("vmodule", "is for --logging-format=text only")
    if not features.is_enabled(LOGGING_ALPHA):
        _refuse_alpha_logging(options)
    return LoggingConfig(
        format=form,
        verbosity=options["v"],
        vmodule=tuple((pattern, int(level)) for pattern, level in vmodule.items()),
        split_stream=options[f"log-{form}-split-stream"],
    )


def _refuse_alpha_logging(options: Options) -> None:
    for form in ("json", "text"):
        for part in ("split-stream", "info-buffer-size"):
            name = f"log-{form}-{part}"
            if options[name] and not _is_zero(options[name]):
                options.problem(
                    name,
                    f"Feature {LOGGING_ALPHA.name} is disabled; give "
                    f"--feature-gates={LOGGING_ALPHA.name}=true as well",
                )


def _is_zero(value: Any) -> bool:  # noqa: ANN401 - a switch or a quantity
    return isinstance(value, str) and not value.strip("0.mkKMGTPEi")
