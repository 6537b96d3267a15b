"""Controller revisions: the history of stateful sets and daemon sets."""
