"""What a model must do under a server. No TFX: a configuration file is checked without importing it."""

from __future__ import annotations

import dataclasses

from xtr_tf.config.schema import require


@dataclasses.dataclass(frozen=True)
class ServingCheckSettings:
    """Bounds of `ServingValidator`.

    Attributes:
        tolerance: How far scores may be from the exporter's; more where the processor is another.
        latency_ms: Within which `latency_share` of single queries must be answered.
        latency_share: Such as 0.95.
        rounds: How often every warm-up query is asked while latency is measured.
        start_seconds: Within which the server must have loaded the model.
    """

    tolerance: float = 1e-3
    latency_ms: float = 500.0
    latency_share: float = 0.95
    rounds: int = 10
    start_seconds: float = 600.0

    def __post_init__(self) -> None:
        for name in ("tolerance", "latency_ms", "start_seconds"):
            require(getattr(self, name) > 0, f"`{name}` must be positive.", getattr(self, name))
        require(0 < self.latency_share <= 1, "`latency_share` must be in (0, 1].", self.latency_share)
        require(self.rounds >= 1, "`rounds` must be at least 1.", self.rounds)
