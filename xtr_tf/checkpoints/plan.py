"""Decides, before anything is written, where every tensor of a checkpoint goes and what is wrong with it.

`xtr-tf checkpoint inspect` shows the same decisions. Reads shapes and dtypes, never values.
"""

from __future__ import annotations

import dataclasses

from xtr_tf.checkpoints.lazy_tensor import LazyTensor
from xtr_tf.checkpoints.model_config import check_projection_config, infer_config, read_hugging_face_config
from xtr_tf.checkpoints.naming import HUGGING_FACE, Naming
from xtr_tf.checkpoints.opening import PROJECTION_FOLDER, Checkpoint
from xtr_tf.config.model import EncoderConfig
from xtr_tf.config.presets import encoder_preset
from xtr_tf.errors import InputError
from xtr_tf.model.weights import weight_shapes

PROJECTION = "projection/kernel"
# Types whose values float32 represents exactly.
_DTYPES = ("float32", "bfloat16", "float16")


@dataclasses.dataclass(frozen=True)
class Assignment:
    """A tensor of the checkpoint and the weight that it becomes."""

    ours: str
    foreign: str
    transposed: bool
    tensor: LazyTensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape as a weight."""
        return self.tensor.shape[::-1] if self.transposed else self.tensor.shape


@dataclasses.dataclass(frozen=True)
class ImportPlan:
    """What an import would do.

    Attributes:
        config: The encoder's sizes.
        assignments: Weight name to its tensor.
        dropped: Names that are known and not needed: decoder, optimizer slots, second names.
        problems: What prevents the import: a phrase for each problem, by the name of the tensor.
    """

    config: EncoderConfig
    assignments: dict[str, Assignment]
    dropped: list[str]
    problems: dict[str, str]

    def check(self, path: object) -> None:
        """Raises one `InputError` that lists every problem, if there is any."""
        if self.problems:
            listed = "; ".join(f"{name} {problem}" for name, problem in self.problems.items())
            if set(self.problems) == {PROJECTION}:
                raise InputError(
                    f"The checkpoint has no projection, like plain T5 and mT5 ({listed}); initialise one "
                    f"with `--init-projection SEED`, and train it. Received: {str(path)!r}."
                )
            raise InputError(
                f"The checkpoint does not fit the encoder it describes, so nothing was written ({listed}). "
                f"Received: {str(path)!r}."
            )


def plan_import(
    checkpoint: Checkpoint,
    *,
    preset: str | None = None,
    projection_dim: int | None = None,
    initialize_projection: bool = False,
) -> ImportPlan:
    """Maps every tensor and checks names, shapes and dtypes; reads no values.

    Args:
        checkpoint: The opened checkpoint.
        preset: The encoder that the checkpoint must fit; by default the one it describes.
        projection_dim: Width of the projection if the checkpoint has none; 128 by default.
        initialize_projection: Whether the projection may be absent.

    Returns:
        Which tensor becomes which weight, and what prevents the import.
    """
    assignments, dropped, problems = _assign(checkpoint)
    config = _find_config(checkpoint, assignments, preset)
    if PROJECTION in assignments:
        projection_dim = assignments[PROJECTION].shape[-1]
    if projection_dim is not None:
        config = dataclasses.replace(config, projection_dim=projection_dim)
    shapes = weight_shapes(config)
    optional = {PROJECTION} if initialize_projection else set()
    for name in shapes.keys() - assignments.keys() - optional:
        problems[name] = "is missing"
        if name == PROJECTION:
            problems[name] += ", and there is no seed to initialise it"
    for name, assignment in assignments.items():
        if problem := _misfit(assignment, shapes.get(name)):
            problems[assignment.foreign] = problem
    return ImportPlan(config, assignments, dropped, dict(sorted(problems.items())))


def _assign(checkpoint: Checkpoint) -> tuple[dict[str, Assignment], list[str], dict[str, str]]:
    assignments: dict[str, Assignment] = {}
    dropped: list[str] = []
    problems: dict[str, str] = {}
    aliases: list[Assignment] = []
    for foreign, tensor in checkpoint.tensors.items():
        rule = checkpoint.naming.find(foreign)
        if checkpoint.naming.drops(foreign):
            dropped.append(foreign)
        elif rule is None:
            problems[foreign] = "has no place in the encoder"
        elif rule.alias:
            aliases.append(Assignment(rule.ours, foreign, rule.transposed, tensor))
        elif rule.ours in assignments:
            problems[foreign] = f"is the same weight as {assignments[rule.ours].foreign}"
        else:
            assignments[rule.ours] = Assignment(rule.ours, foreign, rule.transposed, tensor)
    for alias in aliases:
        if assignments.setdefault(alias.ours, alias) is not alias:
            dropped.append(alias.foreign)
    return assignments, dropped, problems


def _find_config(
    checkpoint: Checkpoint, assignments: dict[str, Assignment], preset: str | None
) -> EncoderConfig:
    if checkpoint.naming is HUGGING_FACE:
        check_projection_config(checkpoint.path / PROJECTION_FOLDER / "config.json")
    if preset is not None:
        return encoder_preset(preset)
    if checkpoint.naming is not HUGGING_FACE:
        shapes = {name: assignment.shape for name, assignment in assignments.items()}
        return infer_config(shapes, checkpoint.config_file)
    if checkpoint.config_file is None:
        raise InputError(
            "A Hugging Face checkpoint needs its `config.json` next to it, or the name of a preset. "
            f"Received: {str(checkpoint.path)!r}."
        )
    return read_hugging_face_config(checkpoint.config_file)


def _misfit(assignment: Assignment, expected: tuple[int, ...] | None) -> str | None:
    if expected is None:
        return "is not part of an encoder of this size"
    if assignment.shape != expected:
        stored = expected[::-1] if assignment.transposed else expected
        return f"has shape {list(assignment.tensor.shape)} instead of {list(stored)}"
    if assignment.tensor.dtype not in _DTYPES:
        return f"is {assignment.tensor.dtype} instead of {' or '.join(_DTYPES)}"
    return None


@dataclasses.dataclass(frozen=True)
class InspectedTensor:
    """One line of an inspection.

    Attributes:
        name: The tensor's name in the checkpoint; empty for one that is missing.
        shape: Its shape as stored.
        dtype: Its element type.
        becomes: Our name of the weight; empty for one that is dropped or unknown.
        verdict: `imported`, `dropped`, or what is wrong with it; `known` if there is no plan.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    becomes: str
    verdict: str


def inspect_tensors(checkpoint: Checkpoint, plan: ImportPlan | None) -> list[InspectedTensor]:
    """Lists a checkpoint's tensors, and at the end those that are missing.

    Args:
        checkpoint: The opened checkpoint.
        plan: What an import would do; None if that is unknown, so that only names are checked.

    Returns:
        One row per tensor.
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
