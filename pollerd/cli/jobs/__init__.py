"""Commands of jobs: one thing that is done to many sites, and its undoing."""
