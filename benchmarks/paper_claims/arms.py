"""The trained runs of `train_arms.sh`, by arm and seed. Knows folders and configurations, not models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xtr_tf.config.loading import read_yaml
from xtr_tf.errors import InputError

#: What each arm is trained by. `imputed` is trained by the score that search ranks by.
ARMS = {"xtr": "f_XTR", "colbert": "f_ColBERT", "imputed": "f_XTR'"}
# Settings in which runs may differ: those of the arm, and those of how and where they ran.
_FREE = {"score", "imputation", "seed", "output", "checkpoint_every", "keep_checkpoints", "log_every"}


def finished_runs(folder: Path) -> dict[str, dict[int, Path]]:
    """Finds the seeds that every arm has finished.

    Args:
        folder: Folder with the runs, `ARM-SEED`.

    Returns:
        Folders of the encoders by arm and seed, with the same seeds for all arms.

    Raises:
        InputError: No seed is finished, or the runs differ in more than the loss and the seed.
    """
    runs = {
        arm: {int(path.parent.name.rpartition("-")[2]): path for path in folder.glob(f"{arm}-*/encoder")}
        for arm in ARMS
    }
    seeds = sorted(set.intersection(*map(set, runs.values())))
    if not seeds:
        raise InputError(
            "No seed has a finished run of every arm; train them with "
            f"benchmarks/paper_claims/train_arms.sh. Received: {str(folder)!r}."
        )
    common = {arm: {seed: own[seed] for seed in seeds} for arm, own in runs.items()}
    _check_same_recipe(common)
    return common


def _check_same_recipe(runs: Mapping[str, Mapping[int, Path]]) -> None:
    paths = [encoder.parent for own in runs.values() for encoder in own.values()]
    first, *others = ((path, _recipe(read_yaml(path / "config.yaml"))) for path in paths)
    for path, recipe in others:
        changed = [name for name in recipe if recipe[name] != first[1].get(name)]
        if changed:
            raise InputError(
                "Arms must differ only in their loss; remove one of these runs and train it again. "
                f"Received: {changed[0]} differs in {str(first[0])!r} and {str(path)!r}."
            )


def _recipe(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        f"{section}.{name}": value
        for section, own in settings.items()
        for name, value in own.items()
        if name not in _FREE
    }
