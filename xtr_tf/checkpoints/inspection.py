"""What a checkpoint holds and what an import would make of it, tensor by tensor."""

from __future__ import annotations

import dataclasses

from xtr_tf.checkpoints.checkpoint import Checkpoint
from xtr_tf.checkpoints.import_plan import ImportPlan
from xtr_tf.checkpoints.naming import Naming
from xtr_tf.encoder.weights import weight_shapes


@dataclasses.dataclass(frozen=True)
class InspectedTensor:
    """One line of an inspection.

    Attributes:
        name: The tensor's name in the checkpoint; empty for one that is missing.
        shape: Its shape as stored.
        dtype: Its element type.
        becomes: The weight's name here; empty for one that is dropped or unknown.
        verdict: `imported`, `dropped`, or what is wrong with it; `known` where no more can be said.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    becomes: str
    verdict: str


def inspect_tensors(checkpoint: Checkpoint, plan: ImportPlan | None) -> list[InspectedTensor]:
    """Lists a checkpoint's tensors, those that it should have and has not at the end.

    Args:
        checkpoint: The opened checkpoint.
        plan: What an import would do; None if that cannot be said, then names alone are judged.
    """
    rows = [
        InspectedTensor(name, tensor.shape, tensor.dtype, *_judge(name, checkpoint.naming, plan))
        for name, tensor in checkpoint.tensors.items()
    ]
    if plan is not None:
        rows += [
            InspectedTensor("", shape, "", name, plan.problems.get(name, "to be initialised"))
            for name, shape in weight_shapes(plan.config).items()
            if name not in plan.assignments
        ]
    return rows


def _judge(name: str, naming: Naming, plan: ImportPlan | None) -> tuple[str, str]:
    """What a tensor becomes, and the verdict on it."""
    rule = naming.find(name)
    if naming.drops(name) or (plan is not None and name in plan.dropped):
        return "", "dropped"
    becomes = rule.ours if rule else ""
    if plan is not None:
        return becomes, plan.problems.get(name, "imported")
    return becomes, "known" if rule else "has no place in the encoder"
