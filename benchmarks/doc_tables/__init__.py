"""Tables of docs/: the command of each, and whether it still produces the same numbers (`check_tables.py`)."""
