"""Templates of users: Jinja2 in a sandbox, bounded. Pure: run it in a process with limits."""
