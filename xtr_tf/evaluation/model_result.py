"""What one model gave on one dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from xtr_tf.evaluation.run import Run
from xtr_tf.evaluation.token_analysis import TokenAnalysis
from xtr_tf.evaluation.worked_examples import WorkedExample


@dataclasses.dataclass(frozen=True)
class ExactCheck:
    """An approximate index beside the exact search of the same model, on a sample of queries.

    Attributes:
        queries: How many.
        metrics: By search (`index`, `exact_xtr`, `exact_colbert`), then by metric.
        overlap_at_10: Share of the exact search's first ten that the index found among its first ten.
        cut_documents: Documents that may have been cut when they were encoded for the exact search.
        note: Why there is no figure, if there is none.
    """

    queries: int = 0
    metrics: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    overlap_at_10: float = 0.0
    cut_documents: int = 0
    note: str = ""


@dataclasses.dataclass(frozen=True)
class ModelResult:
    """Runs and analyses of a model.

    Attributes:
        runs: By system: `xtr`, and `colbert` where the model can be searched exactly.
        tokens: Document tokens in the index, 0 if not known.
        seconds: Spent, by stage.
        analysis: Of token retrieval, if there is one.
        examples: Worked examples.
        exact_check: For an approximate index.
    """

    runs: Mapping[str, Run]
    tokens: int = 0
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    analysis: TokenAnalysis | None = None
    examples: Sequence[WorkedExample] = ()
    exact_check: ExactCheck | None = None
