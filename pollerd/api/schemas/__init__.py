"""The bodies of requests and answers, as OpenAPI shows them: a file a subject."""
