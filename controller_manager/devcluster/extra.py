"""The extra of this distribution that has what only the development cluster needs."""


def missing_extra(error: ImportError) -> str:
    """Return one line that says how to install the extra, for a missing package."""
    return (
        f"the development cluster needs the package {error.name}; install it in a "
        "checkout of this project with: pip install '.[devcluster]'"
    )
