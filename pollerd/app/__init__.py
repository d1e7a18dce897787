"""Everything between the command and the running process: settings, lists, start, reload."""
