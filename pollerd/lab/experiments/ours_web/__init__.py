"""Our own: every allocator at the sizes it is made for, in [A]'s environments, shuffled, sorted, static, switching."""

from pollerd.lab.experiments.ours_web.contest import OURS_WEB

EXPERIMENTS = (OURS_WEB,)
