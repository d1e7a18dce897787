"""The request controller's problem: restless bandits that bring new ones, [C] equations (9) to (11).

Each document is a project with a local state x and two controls: 1, ask for it now; 2, leave it. Q(x, u) is what a
control is worth from then on. The document of the largest index is asked for; those that its links lead to arrive as
new projects, and what they are worth is counted for it:

    Q(x, 1) <- (1 - α) Q(x, 1) + α (g + γ (Q(x', u') + Σ Q(x_j, u_j)))      over the documents j that it discovered

with the controls u' and u_j that are really taken next. [C] leaves open how Q(x, 2) of the many documents that are left
alone is brought up to date. Here the whole time that a document waits is one transition: when it is asked for after
being passed over w times,

    Q(x, 2) <- (1 - α) Q(x, 2) + α γ^w Q(x', 1)

which is the same equation over w steps without reward, and costs nothing while it waits.

What is subtracted for the index of equation (9) is a choice, `passive`:

- "followed": Q(x, 2) as learned above, of the policy that is followed. A document that is always asked for at once is
  found to lose nothing by waiting its short while, and sinks.
- "best": γ max Q(x, ·), equation (7) for the document on its own, as Whittle's index has it: it would be asked for at
  the very next step. The index is then (1 - γ) Q(x, 1), and Q(x, 2) serves equation (10) alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pollerd.errors import InvalidValueError

Passive = Literal["followed", "best"]


@dataclass(frozen=True)
class RequestSettings:
    """What [C] leaves open.

    discount γ, above 0, below 1, per request. step: the least step α, above 0, at most 1; that of a state's k-th
    sample is 1 / k as long as this is more. exploration ε, 0 to 1: share of requests at random, in the first traversal;
    ε / k in the k-th. passive: see above.
    """

    discount: float = 0.9
    step: float = 0.1
    exploration: float = 0.05
    passive: Passive = "best"

    def __post_init__(self) -> None:
        if not 0 < self.discount < 1:
            raise InvalidValueError("discount", "above 0, below 1", self.discount)
        if not 0 < self.step <= 1:
            raise InvalidValueError("step", "above 0, at most 1", self.step)
        if not 0 <= self.exploration <= 1:
            raise InvalidValueError("exploration", "from 0 to 1", self.exploration)
        if self.passive not in ("followed", "best"):
            raise InvalidValueError("passive", "followed or best", self.passive)
