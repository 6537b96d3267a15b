"""Benchmarks of the development cluster itself.

- `requests`: pods and requests a second over HTTPS, also of another cluster;
- `held`: memory, lists, pages and watches of many objects;
- `kept`: the data file and snapshots;
- `encodings`: protobuf and YAML against JSON;
- `starts`: how long it takes to start.
"""
