"""All that a user set, out of one daemon and into another: one document of named sections, a module each."""
