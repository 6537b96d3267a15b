"""The daemon set controller: decisions, and behaviour on a cluster in memory."""
