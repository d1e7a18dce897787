"""Bodies of requests and answers for OpenAPI, one file per subject."""
