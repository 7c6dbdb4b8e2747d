"""The trained ablation, from the files that its runs left: trials and their rows."""

import dataclasses

from sevnet_jax.evaluation.ablation import CONVERGED_WITHIN


@dataclasses.dataclass(frozen=True)
class Trial:
    """How a row is trained."""

    learning_rate: float
    steps: int

    @property
    def suffix(self) -> str:
        """Behind the name of a run; nothing for the first trial."""
        if self == TRIALS[0]:
            return ""
        return f"_lr{self.learning_rate:g}_{self.steps}"


# One after the other, until a row is as good as 1a in distribution; the same for all.
TRIALS = (Trial(1.5e-3, 6000), Trial(5e-4, 6000), Trial(1.5e-3, 12000))


def is_close(score: float | None, wanted: float) -> bool:
    """Whether a row is as good as 1a in distribution; None: its training diverged."""
    return score is not None and score >= wanted - CONVERGED_WITHIN
