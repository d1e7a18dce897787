"""What all routes share: schemas, limits, parameters, problems, OpenAPI."""
