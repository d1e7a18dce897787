"""Sites and hosts, import and export of lists of sites."""
