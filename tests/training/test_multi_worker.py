"""Two processes on this machine train one model."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from xtr_tf.config.loading import to_mapping
from xtr_tf.model.folder import load_encoder
from xtr_tf.training.train import train


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.mark.slow
def test_two_processes_train_what_one_does(tiny_run, tmp_path):
    """After two steps the weights are those of one process with the same global batch."""
    config = tiny_run("two", steps=2, distribution="multi_worker")
    file = tmp_path / "run.yaml"
    settings = to_mapping(config)
    settings["encoder"]["dropout"] = 0.0
    file.write_text(yaml.safe_dump(settings))
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", "from xtr_tf.cli import main; main()", "train", str(file)],
            env={
                **os.environ,
                "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        errors = [process.communicate(timeout=400)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], errors
    assert "step 2/2" in errors[0]
    assert "step 2/2" not in errors[1]

    from xtr_tf.config.loading import from_mapping
    from xtr_tf.config.training import RunConfig

    settings["training"] |= {"distribution": "single", "output": str(tmp_path / "one")}
    alone = train(from_mapping(RunConfig, settings))
    ours = load_encoder(Path(config.training.output) / "encoder")[0].get_canonical_weights()
    theirs = load_encoder(alone)[0].get_canonical_weights()
    for name, weight in ours.items():
        np.testing.assert_allclose(weight, theirs[name], atol=2e-4, err_msg=name)
