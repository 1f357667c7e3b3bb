"""Shared by the executors of this pipeline: each channel has one artifact, or none if it is optional."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from tfx.types import Artifact, artifact_utils

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


def _single(channels: Mapping[str, list[Artifact]]) -> Artifacts:
    return {name: artifact_utils.get_single_instance(found) for name, found in channels.items() if found}
