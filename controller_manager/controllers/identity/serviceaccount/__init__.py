"""serviceaccount-controller: an account ``default`` in every namespace."""
