"""Shared by the executors of this pipeline: single artifacts, and the runner of their workers.

Each channel has one artifact, or none if it is optional.
"""

from __future__ import annotations

import abc
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from tfx.types import Artifact, artifact_utils

from tfx_pipeline.config import is_remote
from xtr_tf.vectors.runners import Runner

Artifacts = Mapping[str, Artifact]


class SingleArtifacts(abc.ABC):
    """Passes an executor the single artifact of each channel instead of TFX's lists.

    List this class before the TFX executor among the base classes.
    """

    def Do(  # noqa: N802
        self,
        input_dict: dict[str, list[Artifact]],
        output_dict: dict[str, list[Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Called by TFX."""
        self.run(_single(input_dict), _single(output_dict), exec_properties)

    @abc.abstractmethod
    def run(self, inputs: Artifacts, outputs: Artifacts, properties: dict[str, Any]) -> None:
        """Does the component's work.

        Args:
            inputs: Input artifact by channel. Optional channels without an artifact are missing.
            outputs: Output artifact by channel, to be filled.
            properties: Parameters of the component.
        """


def names_runner(beam_args: Sequence[str]) -> bool:
    """Returns whether options of Beam name a runner. Without one, this process does the work."""
    return any(argument.startswith("--runner=") for argument in beam_args)


def named_runner(beam_args: str, work: str) -> Runner | None:
    """Returns a runner with Beam's workers, which use a staging folder if the work area is remote.

    Args:
        beam_args: Options of Beam, a list as JSON.
        work: Work area of the pipeline.

    Returns:
        The runner; None if the options name none.
    """
    flags = json.loads(beam_args)
    if not names_runner(flags):
        return None
    from xtr_tf.vectors.beam import BeamRunner
    from xtr_tf.vectors.staged import StagedRunner

    runner = BeamRunner(flags)
    return StagedRunner(runner, posixpath.join(work, "staging")) if is_remote(work) else runner


def _single(channels: Mapping[str, list[Artifact]]) -> Artifacts:
    return {name: artifact_utils.get_single_instance(found) for name, found in channels.items() if found}
