"""What a checkpoint holds and what an import would make of it, tensor by tensor."""

from __future__ import annotations

import dataclasses

from xtr_tf.checkpoints.checkpoint import Checkpoint
from xtr_tf.checkpoints.import_plan import ImportPlan
from xtr_tf.encoder.weights import weight_shapes


@dataclasses.dataclass(frozen=True)
class InspectedTensor:
    """One line of an inspection.

    Attributes:
        name: The tensor's name in the checkpoint; empty for one that is missing.
        shape: Its shape as stored.
        dtype: Its element type.
        becomes: The weight's name here; empty for one that is dropped or unknown.
        verdict: `imported`, `dropped`, or what is wrong with it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    becomes: str
    verdict: str


def inspect_tensors(checkpoint: Checkpoint, plan: ImportPlan) -> list[InspectedTensor]:
    """Lists a checkpoint's tensors, those that it should have and has not at the end."""
    becomes = {assignment.foreign: name for name, assignment in plan.assignments.items()}
    dropped = set(plan.dropped)
    rows = [
        InspectedTensor(
            name,
            tensor.shape,
            tensor.dtype,
            becomes.get(name, ""),
            "dropped" if name in dropped else plan.problems.get(name, "imported"),
        )
        for name, tensor in checkpoint.tensors.items()
    ]
    return rows + [
        InspectedTensor("", shape, "", name, plan.problems.get(name, "to be initialised"))
        for name, shape in weight_shapes(plan.config).items()
        if name not in plan.assignments
    ]
