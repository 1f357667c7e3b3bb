"""Everything one run can be configured with: a section for each part."""

from __future__ import annotations

import dataclasses

from xtr_tf.config.schema import DataConfig, EncoderConfig, LossConfig, TokenizerConfig, TrainingConfig


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The whole configuration of a run, as one YAML file holds it.

    Attributes:
        tokenizer: How text becomes ids.
        encoder: The shape of the encoder.
        loss: What training minimises.
        data: What is trained on.
        training: How training runs.
    """

    tokenizer: TokenizerConfig = dataclasses.field(default_factory=TokenizerConfig)
    encoder: EncoderConfig = dataclasses.field(default_factory=EncoderConfig)
    loss: LossConfig = dataclasses.field(default_factory=LossConfig)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
