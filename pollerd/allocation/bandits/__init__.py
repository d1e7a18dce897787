"""Multi-armed bandits, the thesis's competitors for two pages ([B] 3.2, 5.3 and 7.2.2)."""
