"""Builds the parts of the live daemon, a module for each room of `pollerd.daemon`; `app.build` calls them in order."""
