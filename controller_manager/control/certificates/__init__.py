"""Rules that the controllers of certificate signing requests share."""
