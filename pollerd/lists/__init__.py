"""Documents that list sites, or signal that they changed. Pure."""
