"""Parts that several controllers share; none knows a particular controller."""
