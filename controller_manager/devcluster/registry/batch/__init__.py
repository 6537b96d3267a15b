"""The kinds of the group batch, and the rules for jobs."""
