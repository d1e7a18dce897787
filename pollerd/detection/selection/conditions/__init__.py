"""Conditions: whether a detected change matters, decided on contents and values that were read from them.

`parse_conditions` checks a document, `Condition.evaluate` judges a change; `parse_least` reads the least size of one.
"""

from pollerd.detection.selection.conditions.change_size import ChangeSize, change_size
from pollerd.detection.selection.conditions.condition import (
    Condition,
    ConditionNeeds,
    Verdict,
    parse_conditions,
)
from pollerd.detection.selection.conditions.inputs import ComparableValue, Comparison, CompilePattern, PatternLike
from pollerd.detection.selection.conditions.least import Least, parse_least
from pollerd.detection.selection.conditions.line_changes import LineChanges, line_changes
from pollerd.detection.selection.conditions.line_hashes import line_hashes, pack_line_hashes, unpack_line_hashes

__all__ = [
    "ChangeSize",
    "ComparableValue",
    "Comparison",
    "CompilePattern",
    "Condition",
    "ConditionNeeds",
    "Least",
    "LineChanges",
    "PatternLike",
    "Verdict",
    "change_size",
    "line_changes",
    "line_hashes",
    "pack_line_hashes",
    "parse_conditions",
    "parse_least",
    "unpack_line_hashes",
]
