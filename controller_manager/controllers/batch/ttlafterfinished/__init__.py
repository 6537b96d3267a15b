"""ttl-after-finished-controller: deletes jobs some time after they have ended."""
