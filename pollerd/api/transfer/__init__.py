"""Transfer of all user settings between daemons: one document of named sections, one module each."""
