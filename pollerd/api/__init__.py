"""REST, metrics and health on FastAPI. Accesses the daemon only through `ControlPort`."""
