"""The request controller's problem: restless bandits with arrivals, [C] equations (9) to (11).

Each document is a project with a local state x and two controls: 1, request it now; 2, leave it. Q(x, u) is the value
of a control from then on. The document of the largest index is requested; documents that its links lead to arrive as
new projects, and their values are credited to it:

    Q(x, 1) <- (1 - α) Q(x, 1) + α (g + γ (Q(x', u') + Σ Q(x_j, u_j)))      over the documents j that it discovered

with the controls u' and u_j that are actually taken next. [C] does not say how to update Q(x, 2) of the many documents
that are left. Here the whole time that a document waits is one transition: when it is requested after being passed over
w times,

    Q(x, 2) <- (1 - α) Q(x, 2) + α γ^w Q(x', 1)

which is the same equation over w steps without reward, and costs nothing while it waits.

The term subtracted in the index of equation (9) is an option, `passive`:

- "followed": Q(x, 2) as learned above, of the policy that is followed. A document that is always requested at once
  loses little by its short wait, so that its index sinks.
- "best": γ max Q(x, ·), equation (7) for the document on its own, as in Whittle's index: it would be requested at the
  very next step. The index is then (1 - γ) Q(x, 1), and Q(x, 2) is used in equation (10) only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pollerd.errors import InvalidValueError

Passive = Literal["followed", "best"]


@dataclass(frozen=True)
class RequestSettings:
    """Parameters that [C] leaves open.

    discount γ, above 0, below 1, per request. step: minimum step size α, above 0, at most 1; that of a state's k-th
    sample is 1 / k while this is larger. exploration ε, 0 to 1: share of random requests in the first traversal; ε / k
    in the k-th. passive: see the module.
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
