"""The kinds of the core group, a subject in each module."""
