"""Values, indices and schedules that several policies use."""
