"""Controllers of the batch group: ``cronjob``, ``job`` and ``ttlafterfinished``."""
