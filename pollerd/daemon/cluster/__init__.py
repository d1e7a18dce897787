"""One of several nodes on a database: what it holds, and how that comes and goes while it polls."""
