"""The tables of docs/: which command makes each, and whether it still makes the same numbers (`check_tables.py`)."""
