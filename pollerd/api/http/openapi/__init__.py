"""The OpenAPI document of the API, with examples."""
