"""Writes tiny checkpoints with the same libraries as published ones. Runs in .parity.

    .parity/bin/python tools/parity/write_golden_checkpoints.py tests/golden/checkpoints
    .parity/bin/python tools/parity/write_golden_checkpoints.py DIRECTORY --live           # fresh weights

Each case is a folder as its library writes it, next to `NAME.expected.safetensors`: ids and the vectors
that `transformers` computes from the same weights, `texts` and versions in the metadata. Weights are
random; the vocabulary is trained on the texts below.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import io
import json
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import flax.serialization
import numpy as np
import safetensors.numpy
import safetensors.torch
import sentencepiece
import tensorstore
import torch
from reference_model import ReferenceConfig, ReferenceModel
from transformers import MT5ForConditionalGeneration, T5ForConditionalGeneration, T5Tokenizer

TEXTS = (
    "The Oslofjord is an inlet in the south-east of Norway.",
    "Mount Everest stands on the border between Nepal and China.",
    "Lake Titicaca lies in the Andes, 3,812 metres above the sea.",
    "A fjord is a long, narrow inlet with steep sides, created by a glacier.",
    "What is the highest mountain of the world?",
)
ENCODED = (TEXTS[0], TEXTS[4])
SIZES = ReferenceConfig(
    vocabulary_size=96, model_dim=16, feed_forward_dim=24, num_layers=2, num_heads=3, head_dim=8
)
RELU = dataclasses.replace(SIZES, feed_forward="relu")


def train_vocabulary() -> bytes:
    """Trains a vocabulary with T5's special ids; without a normalisation table, which is large."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(text.lower() for text in TEXTS),
        model_writer=model,
        vocab_size=80,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    return model.getvalue()


def write_released_xtr(folder: Path, reference: ReferenceModel) -> None:
    """The layout of google/xtr-base-en: safetensors, and the projection as a PyTorch file."""
    reference.model.save_pretrained(folder)
    write_projection(folder / "2_Dense" / "pytorch_model.bin", reference)
    (folder / "spiece.model").write_bytes(train_vocabulary())


def write_sharded(folder: Path, reference: ReferenceModel) -> None:
    """A whole mT5 in bfloat16, split into shards."""
    model = full_model(MT5ForConditionalGeneration, reference).to(torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="15KB")
    write_projection(folder / "2_Dense" / "model.safetensors", reference)


def write_torch(folder: Path, reference: ReferenceModel) -> None:
    """A whole T5 1.0 as `torch.save` writes it today, tied embeddings under all their names."""
    model = full_model(T5ForConditionalGeneration, reference)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    model.config.save_pretrained(folder)
    write_projection(folder / "2_Dense" / "pytorch_model.bin", reference)


def write_legacy_torch(folder: Path, reference: ReferenceModel) -> None:
    """An encoder as `torch.save` wrote it before 2020, some of it transposed views."""
    state = reference.model.state_dict()
    transposed = "encoder.block.1.layer.0.SelfAttention.o.weight"
    state[transposed] = state[transposed].T.contiguous().T
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    reference.model.config.save_pretrained(folder)
    write_projection(folder / "2_Dense" / "pytorch_model.bin", reference, legacy=True)


def write_t5x(folder: Path, reference: ReferenceModel) -> None:
    """As T5X's checkpointer: kernels through TensorStore, the rest in Flax's MessagePack.

    One tensor each stands for the decoder and the optimizer's state. One kernel is bfloat16, and one is
    bfloat16 stored as uint16, as before June 2021.
    """
    weights = {f"target/{name}": value for name, value in canonical_weights(reference).items()}
    del weights["target/projection/kernel"]
    weights["target/decoder/logits_dense/kernel"] = np.ones((16, 96), np.float32)
    weights["state/param_states/encoder/encoder_norm/scale/v"] = np.ones(16, np.float32)
    tree: dict = {"target": {}, "state": {"step": np.int32(1000)}}
    for name, value in weights.items():
        leaf = value
        if value.ndim == 2:
            leaf = write_tensorstore(folder, name.replace("/", "."), value, dtype_for(name))
        *parents, last = name.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = leaf
    content = flax.serialization.to_bytes({"version": 3, "optimizer": tree})
    (folder / "checkpoint").write_bytes(content)


def dtype_for(name: str) -> str:
    """Returns the type in which a kernel is stored."""
    return {
        "target/encoder/layers_0/mlp/wo/kernel": "bfloat16",
        "target/encoder/layers_1/mlp/wo/kernel": "uint16",
    }.get(name, "float32")


def write_tensorstore(folder: Path, name: str, value: np.ndarray, dtype: str) -> dict:
    """Writes one compressed array, a long one in several chunks, and returns its description."""
    spec = {
        "driver": "zarr",
        "dtype": dtype,
        "kvstore": {"driver": "file", "path": str(folder / name)},
        "metadata": {
            "compressor": {"id": "gzip"},
            "shape": list(value.shape),
            "chunks": [min(size, 32) for size in value.shape],
        },
    }
    if dtype == "bfloat16":
        value = value.astype(tensorstore.bfloat16.numpy_dtype)
    elif dtype == "uint16":
        value = value.astype(tensorstore.bfloat16.numpy_dtype).view(np.uint16)
    tensorstore.open(spec, create=True).result().write(value).result()
    spec["kvstore"] = {"driver": "file", "path": name}
    return spec


def write_projection(file: Path, reference: ReferenceModel, legacy: bool = False) -> None:
    """Writes `linear.weight` as sentence-transformers does."""
    file.parent.mkdir()
    state = torch.nn.Sequential()
    state.add_module("linear", torch.nn.Linear(16, 128, bias=False))
    state.load_state_dict({"linear.weight": reference.projection})
    if file.suffix == ".safetensors":
        safetensors.torch.save_file(state.state_dict(), file)
    else:
        torch.save(state.state_dict(), file, _use_new_zipfile_serialization=not legacy)
    config = {
        "in_features": 16,
        "out_features": 128,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    (file.parent / "config.json").write_text(json.dumps(config))


def full_model(model_class: type, reference: ReferenceModel) -> torch.nn.Module:
    """An encoder-decoder with the reference's encoder."""
    model = model_class(reference.model.config)
    model.encoder.load_state_dict(reference.model.encoder.state_dict())
    model.shared.load_state_dict(reference.model.shared.state_dict())
    return model.eval()


def canonical_weights(reference: ReferenceModel) -> dict[str, np.ndarray]:
    """T5X's names and layouts in float32."""
    return {name: value.astype(np.float32) for name, value in reference.canonical_weights().items()}


@torch.inference_mode()
def round_to_bfloat16(reference: ReferenceModel) -> None:
    """Rounds every weight to one that bfloat16 represents exactly."""
    for parameter in reference.model.parameters():
        parameter.copy_(parameter.bfloat16().float())


CASES: dict[str, tuple[str, ReferenceConfig, Callable[[Path, ReferenceModel], None]]] = {
    "released_xtr": ("t5", SIZES, write_released_xtr),
    "sharded_mt5": ("mt5", SIZES, write_sharded),
    "torch_t5": ("t5", RELU, write_torch),
    "legacy_torch_mt5": ("mt5", SIZES, write_legacy_torch),
    "t5x_t5": ("t5", RELU, write_t5x),
}


def main() -> None:
    """Writes all cases again."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--live", action="store_true", help="a fresh seed")
    arguments = parser.parse_args()
    directory = arguments.directory
    shutil.rmtree(directory, ignore_errors=True)
    first_seed = secrets.randbelow(2**31) if arguments.live else 0
    versions = {
        name: importlib.metadata.version(name)
        for name in ("flax", "safetensors", "sentencepiece", "tensorstore", "torch", "transformers")
    }
    for seed, (name, (family, config, write)) in enumerate(CASES.items(), first_seed):
        torch.manual_seed(seed)
        reference = ReferenceModel(config, family, seed)
        round_to_bfloat16(reference)
        folder = directory / name
        folder.mkdir(parents=True)
        write(folder, reference)
        tokenizer = T5Tokenizer.from_pretrained(directory / "released_xtr", extra_ids=0)
        ids = tokenizer([text.lower() for text in ENCODED], padding=True, return_tensors="np")["input_ids"]
        _, vectors = reference.run(ids)
        safetensors.numpy.save_file(
            {"ids": ids.astype(np.int32), "vectors": vectors, "projection": reference.projection.numpy()},
            directory / f"{name}.expected.safetensors",
            {"texts": json.dumps(ENCODED), "versions": json.dumps(versions)},
        )
        print(f"{folder}: seed {seed}")
    for file in directory.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


if __name__ == "__main__":
    main()
