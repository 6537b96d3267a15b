"""The apps group."""
