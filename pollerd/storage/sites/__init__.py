"""Sites, hosts and schedules."""
