"""HTTP/1.1 on the connections of a transport."""
