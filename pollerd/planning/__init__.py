"""A plan of the budget as a value, and what it says in words: pure, for REST, the command line and the pages alike."""
