"""How values become columns: text, secrets, compression, cursors."""
