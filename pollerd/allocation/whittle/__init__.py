"""The learned Whittle index: rates are learned from polls, and the most valuable polls are chosen."""
