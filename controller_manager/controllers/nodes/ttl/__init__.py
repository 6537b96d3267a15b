"""ttl-controller: tells kubelets how long they may believe what they have read."""
