"""Learning automata for optimal polling: TRAA, H-TRAA, and the knowledge gradient variant LAKG."""
