"""garbage-collector-controller: deletes what has lost all its owners.

``graph`` knows of every object whose it is (pure bookkeeping, fed by events);
``monitors`` keeps that true for every resource that discovery lists; ``actions``
reads and writes single objects; ``controller`` decides from both what goes, and
``dump`` draws the graph. What the graph believes only says where to look: no
object is deleted unless the API server itself has just said that its owners are
gone.
"""
