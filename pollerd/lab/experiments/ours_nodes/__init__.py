"""Our own: one budget over several nodes, each with an allocator of its own, against one allocator over all pages."""

from pollerd.lab.experiments.ours_nodes.split import OURS_NODES

EXPERIMENTS = (OURS_NODES,)
