"""What several writers of one PostgreSQL database need: ids that are settled, numbers that are raised."""
