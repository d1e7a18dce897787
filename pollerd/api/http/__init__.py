"""Shared by all routes: limits, parameters, problems, OpenAPI."""
