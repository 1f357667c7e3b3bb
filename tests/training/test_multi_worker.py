"""Two processes on this machine train one model, and stop together whichever of them gets the signal."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.support.workers import exit_codes, logs, started_workers, wait_for
from xtr_tf.config.loading import from_mapping, to_mapping
from xtr_tf.config.training import RunConfig
from xtr_tf.model.folder import load_encoder
from xtr_tf.training.train import train

pytestmark = pytest.mark.slow


def train_command(settings: dict, folder: Path) -> list[str]:
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(settings))
    return [sys.executable, "-c", "from xtr_tf.cli import main; main()", "train", str(file)]


def test_two_processes_train_what_one_does(tiny_run, tmp_path, repository):
    """The weights are those of one process with the same global batch; the chief evaluates meanwhile."""
    config = tiny_run("two", steps=2, distribution="multi_worker", evaluate_every=1, dev_k_prime=50)
    settings = to_mapping(config)
    settings["encoder"]["dropout"] = 0.0
    settings["data"]["dev"] = [{"path": str(repository / "examples" / "atlas"), "split": "dev"}]
    with started_workers(train_command(settings, tmp_path), tmp_path) as workers:
        assert exit_codes(workers) == [0, 0], logs(tmp_path)
    chief, other = logs(tmp_path)
    assert "step 2/2" in chief
    assert "step 2/2" not in other
    lines = (Path(config.training.output) / "dev_metrics.jsonl").read_text().splitlines()
    measured = [json.loads(line)["nDCG@10"] for line in lines]
    assert len(measured) == 2
    trained = 1 + int(np.argmax(measured))  # the best is what is left

    settings["data"]["dev"] = []
    settings["training"] |= {"distribution": "single", "output": str(tmp_path / "one"), "steps": trained}
    alone = train(from_mapping(RunConfig, settings))
    ours = load_encoder(Path(config.training.output) / "encoder")[0].get_canonical_weights()
    theirs = load_encoder(alone)[0].get_canonical_weights()
    for name, weight in ours.items():
        np.testing.assert_allclose(weight, theirs[name], atol=2e-4, err_msg=name)


def test_all_processes_stop_at_one_step_whichever_is_signalled(tiny_run, tmp_path):
    """The other, the chief, then both at different steps; each time one checkpoint, and the run goes on."""
    config = tiny_run(
        "two", steps=100_000, log_every=1, checkpoint_every=100_000, distribution="multi_worker"
    )
    checkpoints = Path(config.training.output) / "checkpoints"
    command = train_command(to_mapping(config), tmp_path)
    reached = 0
    for signalled in ([1], [0], [1, 0]):
        with started_workers(command, tmp_path) as workers:
            shown = f"step {reached + 3}/"
            wait_for(lambda shown=shown: shown in logs(tmp_path)[0], workers)
            for index in signalled:
                workers[index].send_signal(signal.SIGTERM)
                time.sleep(0.05)
            assert exit_codes(workers) == [143, 143], logs(tmp_path)
        (first,), (second,) = (re.findall(r"stopped at step (\d+)", log) for log in logs(tmp_path))
        assert first == second
        assert max(path.name for path in checkpoints.glob("step_*")) == f"step_{int(first):09d}"
        if reached:
            assert f"continues after step {reached} of" in logs(tmp_path)[0]
        assert int(first) > reached
        reached = int(first)
