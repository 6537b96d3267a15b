"""root-ca-certificate-publisher-controller: whom to trust, in every namespace."""
