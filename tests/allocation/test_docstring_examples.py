"""The examples in the docstrings of allocators run, and every allocator has one."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

from pollerd.allocation.registry import create, names


@pytest.mark.parametrize("name", names())
def test_the_example_of_an_allocator_runs(name: str) -> None:
    policy = type(create(name, budget=1.0, rng=np.random.default_rng(0)))
    examples = doctest.DocTestFinder(recurse=False).find(policy, policy.__name__, inspect.getmodule(policy))
    runner = doctest.DocTestRunner(verbose=False)
    assert [runner.run(example).failed for example in examples if example.examples] == [0]
