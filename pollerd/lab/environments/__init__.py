"""Environments for allocators: only the scorer knows the truth, an allocator sees what a poll would show.

Policies are scored in a *world* (worlds.py): the *web*, with changing pages and real gaps (web.py); the *knapsack* of
the papers, with feedback drawn at the mix (knapsack.py); a *history* of recorded changes (histories.py). An
*environment* is [A]'s word for the parameters of a web: number of pages, skew, order, and how often ranks switch
(zipf.py).
"""
