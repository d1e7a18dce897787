"""Settings as they are given: fields, ranges, access, windows."""
