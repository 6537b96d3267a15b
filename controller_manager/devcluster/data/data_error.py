"""The errors of files with state."""


class DataError(Exception):
    """A data file or a snapshot cannot be used; the message is one line."""


class NotSavedError(DataError):
    """Changes could not be written; nothing that was written before is lost."""
