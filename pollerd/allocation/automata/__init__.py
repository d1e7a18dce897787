"""Learning automata for optimal polling: TRAA, H-TRAA, and LAKG, the automata knapsack game."""
