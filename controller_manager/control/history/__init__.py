"""Controller revisions: the history of stateful sets and daemon sets.

A revision holds a present or former pod template of its owner. ``template`` turns a
template into the data of a revision, and back. ``names`` has hashes and names,
``order`` sorts revisions and chooses those to delete, ``revisions`` writes them.
Upstream: pkg/controller/history/controller_history.go.
"""
