"""OpenAPI documents, which kubectl uses to explain and validate."""
