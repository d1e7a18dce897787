"""Worlds for allocators, with the truth known to the scorer alone: an allocator sees what a poll would show.

A *world* is where a policy is tried out and scored (worlds.py): the *web*, where pages change and gaps are real
(web.py); the *knapsack* of the papers, where feedback is drawn at the mix itself (knapsack.py); a *history* of recorded
changes (histories.py). An *environment* is [A]'s word for the numbers of a web: how many pages, how steeply ranked, in
what order, how often ranks switch (zipf.py).
"""
