"""Several nodes under faults: their surroundings, what befalls them, and what must hold afterwards."""
