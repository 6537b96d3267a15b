"""The demo: applies the samples, changes them, and shows what the controllers do."""
