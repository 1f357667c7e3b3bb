"""`xtr-tf checkpoint` as a user runs it: exit codes, one-sentence errors, and how much memory it takes."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.support.processes import call_command, run_command
from xtr_tf.checkpoints.naming import HUGGING_FACE
from xtr_tf.checkpoints.safetensors import SafetensorsWriter, row_blocks
from xtr_tf.config.model import EncoderConfig
from xtr_tf.model.weights import weight_shapes


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return call_command("checkpoint", *arguments)


def test_import_then_export_then_inspect(golden: Any, tmp_path: Path) -> None:
    imported = run_command("checkpoint", "import", golden.path("released_xtr"), "--out", tmp_path / "encoder")
    following = f"next: xtr-tf encode CORPUS --model {tmp_path / 'encoder'} --out VECTORS"
    assert (imported.returncode, imported.stderr.strip()) == (0, following)
    assert "2 layers, 16 wide, 3 heads, gated-gelu, 96 pieces, projection to 128" in imported.stdout
    exported = run("export", tmp_path / "encoder", "--out", tmp_path / "exported")
    assert (exported.returncode, exported.stderr.strip()) == (0, "")
    inspected = run("inspect", tmp_path / "exported")
    assert inspected.returncode == 0
    assert "encoder/relpos_bias/rel_embedding" in inspected.stdout
    assert "[32, 3]" in inspected.stdout


def test_compact_halves_the_weights(golden: Any, tmp_path: Path) -> None:
    assert run("import", golden.path("released_xtr"), "--out", tmp_path / "encoder").returncode == 0
    compacted = run("compact", tmp_path / "encoder", "--out", tmp_path / "small")
    assert compacted.returncode == 0, compacted.stderr
    whole, half = (load_file(tmp_path / name / "weights.safetensors") for name in ("encoder", "small"))
    assert whole.keys() == half.keys()
    for name, weight in whole.items():
        assert half[name].dtype == np.float16
        np.testing.assert_array_equal(half[name], weight.astype(np.float16))


def test_the_current_folder_is_a_checkpoint(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden.path("torch_t5"))
    inspected = run("inspect", ".")
    assert "lm_head.weight" in inspected.stdout
    assert "Traceback" not in inspected.stderr


def test_inspect_says_what_would_be_refused(golden: Any, tmp_path: Path) -> None:
    source = Path(shutil.copytree(golden.path("torch_t5"), tmp_path / "source"))
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"d_ff": 32}))
    inspected = run("inspect", source)
    assert inspected.returncode == 1
    assert "lm_head.weight" in inspected.stdout
    assert "dropped" in inspected.stdout
    assert "has shape [24, 16] instead of [32, 16]" in inspected.stdout
    assert "does not fit the encoder it describes" in inspected.stderr


def test_inspect_lists_what_it_cannot_import(golden: Any, tmp_path: Path) -> None:
    source = Path(shutil.copytree(golden.path("released_xtr"), tmp_path / "source"))
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"model_type": "umt5"}))
    inspected = run("inspect", source)
    assert inspected.returncode == 1
    assert "encoder/layers_1/mlp/wi_1/kernel" in inspected.stdout
    assert inspected.stderr.startswith("xtr-tf: Only checkpoints of `model_type` t5 or mt5")


def malicious(source: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return exec, (f"open({str(source / 'executed')!r}, 'w')",)

    with zipfile.ZipFile(source / "2_Dense" / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"linear.weight": Trap()}, protocol=2))


def truncated(source: Path) -> None:
    file = source / "model.safetensors"
    file.write_bytes(file.read_bytes()[:20_000])


def wrong_shape(source: Path) -> None:
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"vocab_size": 100}))


def missing_file(source: Path) -> None:
    (source / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (malicious, "Received: a pickle that imports __builtin__.exec in"),
        (truncated, "missing, truncated or damaged"),
        (wrong_shape, "shared.weight has shape [96, 16] instead of [100, 16]"),
        (missing_file, "has no checkpoint"),
    ],
)
def test_bad_checkpoints_end_in_one_sentence(
    golden: Any, tmp_path: Path, damage: Any, complaint: str
) -> None:
    source = Path(shutil.copytree(golden.path("released_xtr"), tmp_path / "source"))
    damage(source)
    result = run("import", source, "--out", tmp_path / "out" / "encoder")
    assert result.returncode == 1
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
    assert not (source / "executed").exists()


def write_large_checkpoint(folder: Path) -> Path:
    """A checkpoint of mT5-small's encoder with 60,000 pieces, 190 MiB."""
    shapes = weight_shapes(EncoderConfig(vocabulary_size=60_000))
    rules = HUGGING_FACE.foreign_names(shapes)
    stored = {
        rule.foreign: shapes[name][:: -1 if rule.transposed else 1]
        for name, rule in rules.items()
        if name != "projection/kernel"
    }
    folder.mkdir()
    with SafetensorsWriter(folder / "model.safetensors", stored) as writer:
        for name, shape in stored.items():
            writer.write(name, row_blocks(np.ones(shape, np.float32)))
    config = {"model_type": "mt5", "vocab_size": 60_000, "d_model": 512, "d_ff": 1024, "d_kv": 64}
    config |= {"num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


MEASURED_IMPORT = """
import sys
import sentencepiece, xtr_tf.checkpoints.importing as importing
from xtr_tf.config.model import TokenizerConfig
from xtr_tf.runtime import peak_resident_bytes as peak
before = peak()
source, out, tokenizer = sys.argv[1:]
importing.import_checkpoint(source, out, tokenizer=TokenizerConfig(model=tokenizer), projection_seed=0)
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_an_import_needs_less_memory_than_the_checkpoint(golden: Any, tmp_path: Path) -> None:
    source = write_large_checkpoint(tmp_path / "source")
    size = (source / "model.safetensors").stat().st_size
    assert size > 190_000_000
    growth = subprocess.check_output(
        [sys.executable, "-c", MEASURED_IMPORT, source, tmp_path / "encoder", golden.spiece], text=True
    )
    assert int(growth) < 0.8 * size
