"""Our own: one budget over several nodes, each with an allocator of its own, against one allocator over all pages."""

from pollerd.simulation.experiments.ours_nodes.split import OURS_NODES

EXPERIMENTS = (OURS_NODES,)
