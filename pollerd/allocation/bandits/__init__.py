"""Players of multi-armed bandits, the thesis's contenders for two pages ([B] 3.2, 5.3 and 7.2.2)."""
