"""The daemon set controller: plans, and behaviour on a cluster in memory."""
