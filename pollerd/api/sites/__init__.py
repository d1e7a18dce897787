"""Sites and hosts, and lists of sites in and out."""
