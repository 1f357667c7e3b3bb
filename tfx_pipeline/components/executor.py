"""What the executors of this pipeline share: each channel holds one artifact, or none if it is optional."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from tfx.types import Artifact, artifact_utils

Artifacts = Mapping[str, Artifact]


class SingleArtifacts(abc.ABC):
    """Gives an executor the one artifact of each channel instead of TFX's lists.

    To be named before the TFX executor that a class derives from.
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
            inputs: By channel; an optional one that is empty is missing.
            outputs: By channel, to be filled.
            properties: The component's parameters.
        """


def names_runner(beam_args: Sequence[str]) -> bool:
    """Whether options of Beam say who is to work; without, this process does."""
    return any(argument.startswith("--runner=") for argument in beam_args)


def _single(channels: Mapping[str, list[Artifact]]) -> Artifacts:
    return {name: artifact_utils.get_single_instance(found) for name, found in channels.items() if found}
