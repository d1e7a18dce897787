"""What all routes share: limits, parameters, problems, OpenAPI."""
