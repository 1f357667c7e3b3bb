"""Input and checkpoints where variables and batches live in another process, as on the hosts of a TPU."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from xtr_tf.processes import child_environment

SERVER = """
import sys
import tensorflow as tf
from xtr_tf.processes import die_with_parent

die_with_parent()
cluster = tf.train.ClusterSpec({"worker": [f"localhost:{sys.argv[1]}"]})
tf.distribute.Server(cluster, job_name="worker", task_index=0).join()
"""

CLIENT = """
import json, sys
from pathlib import Path
import numpy as np
import tensorflow as tf

tf.config.experimental_connect_to_host(f"localhost:{sys.argv[1]}", job_name="worker")

from xtr_tf.config.model import TokenizerConfig
from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.training.data.tokenized import TokenizedData
from xtr_tf.training.run_folder import CheckpointStore

worker = tf.device("/job:worker/replica:0/task:0/device:CPU:0")
found = {}

# Relative paths: the worker has another working directory, and would write and look there.
with worker:
    variable = tf.Variable([1.0, 2.0])
found["device"] = variable.device
state = tf.train.Checkpoint(value=variable)
options = tf.train.CheckpointOptions(experimental_io_device="/job:localhost")
store = CheckpointStore(Path("checkpoints"), state, 1, options)
store.save(1)
variable.assign([0.0, 0.0])
store.restore(store.latest())
found["restored"] = variable.numpy().tolist()
try:
    CheckpointStore(Path("elsewhere"), state, 1).save(1)
    found["without"] = sorted(path.name for path in Path("elsewhere").rglob("state*"))
except Exception as error:
    found["without"] = []

numbers = lambda values: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
texts = lambda text: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
scores = lambda count: tf.train.Feature(float_list=tf.train.FloatList(value=[0.5] * count))
path = Path("examples.tfrecord").resolve()
with tf.io.TFRecordWriter(str(path)) as writer:
    for number in range(1, 9):
        features = {
            "id": texts(str(number).encode()), "language": texts(b"en"), "query_tokens": numbers([number, 1]),
            "positive_tokens": numbers([number] * 4), "positive_keys": numbers([number] * 6),
            "negative_tokens": numbers([number + 10] * 4), "negative_keys": numbers([number] * 6),
            "positive_scores": scores(1), "negative_scores": scores(1),
        }
        writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
config = DataConfig(train=(SourceConfig(str(path), "tokenized"),), hard_negatives=1)
data = TokenizedData(config, TokenizerConfig("", True, 2, 4), seed=0)
here = [batch.document_ids.numpy().tolist() for batch in data.batches(np.arange(0, 8, 4), 4)]
with worker:
    batches = list(data.batches(np.arange(0, 8, 4), 4))
found["batch device"] = batches[0].document_ids.device
found["same"] = [batch.document_ids.numpy().tolist() for batch in batches] == here
print(json.dumps(found))
"""


@pytest.mark.slow
def test_another_host_reads_and_this_one_writes(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    for name in ("server", "client"):
        (tmp_path / name).mkdir()
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, port], cwd=tmp_path / "server", env=child_environment()
    )
    try:
        client = subprocess.run(
            [sys.executable, "-c", CLIENT, port],
            cwd=tmp_path / "client",
            capture_output=True,
            text=True,
            timeout=300,
        )
    finally:
        server.kill()
        server.wait()
    assert client.returncode == 0, client.stderr[-3000:]
    found = json.loads(client.stdout.splitlines()[-1])
    assert "/job:worker" in found["device"]
    assert found["restored"] == [1.0, 2.0]
    assert found["without"] == []
    assert "/job:worker" in found["batch device"]
    assert found["same"]
