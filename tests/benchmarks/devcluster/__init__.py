"""Benchmarks of the development cluster itself.

- `requests`: pods and requests a second over HTTPS, also of another cluster;
- `pods`: pods a second, and the CPU time of one, beside those of another source;
- `yaml_bodies`: the time in which large YAML keeps the server from other requests;
- `held`: memory, lists, pages and watches of many objects;
- `kept`: the data file and snapshots;
- `encodings`: protobuf and YAML against JSON;
- `starts`: how long it takes to start.
"""
