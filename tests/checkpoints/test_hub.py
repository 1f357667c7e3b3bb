"""Checkpoints by id, against a local server that speaks the Hub's protocol, by the Hub's own client."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.checkpoints.hub_server import COMMIT, HubServer, hub
from xtr_tf.checkpoints.hub import is_hub_id, needed_files
from xtr_tf.model.folder import read_manifest

SCRIPT = """
import sys
from xtr_tf.checkpoints.hub import {function}
from xtr_tf.errors import InputError
try:
    print({function}(*sys.argv[1:2], **dict(word.split("=") for word in sys.argv[2:]), progress=False))
except InputError as error:
    sys.exit(str(error))
"""
Fetch = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def server(repository: Path, tmp_path: Path) -> Iterator[HubServer]:
    golden = repository / "tests" / "golden" / "checkpoints"
    released = tmp_path / "released"
    shutil.copytree(golden / "released_xtr", released)
    (released / "tf_model.h5").write_bytes(b"not needed")
    (released / "README.md").write_text("not needed")
    with hub({"google/xtr": released, "google/sharded": golden / "sharded_mt5"}) as running:
        yield running


@pytest.fixture
def fetch(server: HubServer, tmp_path: Path) -> Fetch:
    """Calls a function of `hub.py` in a process whose Hub is the local server."""

    def call(
        *arguments: str, function: str = "fetch_checkpoint", **others: str
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "HF_ENDPOINT": server.address,
            "HF_HOME": str(tmp_path / "hf"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            **others,
        }
        return subprocess.run(
            [sys.executable, "-c", SCRIPT.format(function=function), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=environment,
        )

    return call


def test_only_what_is_needed_is_fetched_and_only_once(server: HubServer, fetch: Fetch) -> None:
    ended = fetch("google/xtr")
    assert ended.returncode == 0, ended.stderr
    folder = Path(ended.stdout.strip())
    assert folder.name == COMMIT
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        "model.safetensors",
        "config.json",
        "spiece.model",
        "2_Dense/pytorch_model.bin",
        "2_Dense/config.json",
    }
    assert sorted(server.fetched) == sorted(files)
    assert fetch("google/xtr", f"revision={COMMIT}").returncode == 0
    assert len(server.fetched) == len(files)


def test_an_id_becomes_an_encoder(fetch: Fetch) -> None:
    ended = fetch("google/xtr", function="fetch_encoder")
    assert ended.returncode == 0, ended.stderr
    directory = Path(ended.stdout.strip())
    assert directory.name == f"google--xtr--{COMMIT}"
    assert read_manifest(directory).encoder.projection_dim
    offline = fetch("google/xtr", function="fetch_encoder", HF_HUB_OFFLINE="1")
    assert Path(offline.stdout.strip()) == directory


def test_an_interrupted_download_can_be_continued(server: HubServer, fetch: Fetch, tmp_path: Path) -> None:
    server.cut = True
    ended = fetch("google/xtr")
    assert ended.returncode == 1
    assert "ended early; run this again" in ended.stderr
    assert "'google/xtr'" in ended.stderr
    assert not list((tmp_path / "hf").rglob("model.safetensors"))
    server.cut = False
    again = fetch("google/xtr")
    assert again.returncode == 0, again.stderr
    assert (Path(again.stdout.strip()) / "model.safetensors").is_file()


def test_a_wrong_checksum_is_refused_and_the_file_fetched_again(server: HubServer, fetch: Fetch) -> None:
    server.spoiled = {"model.safetensors"}
    ended = fetch("google/xtr")
    assert ended.returncode == 1
    assert "does not have the checksum" in ended.stderr
    assert "'model.safetensors' of 'google/xtr'" in ended.stderr
    server.spoiled = set()
    again = fetch("google/xtr")
    assert again.returncode == 0, again.stderr
    assert server.fetched.count("model.safetensors") == 2


def test_a_wrong_small_file_is_refused_too(server: HubServer, fetch: Fetch) -> None:
    server.spoiled = {"config.json"}
    assert "'config.json' of 'google/xtr'" in fetch("google/xtr").stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["google/absent"], "has no model with this id.*'google/absent'"),
        (["google/xtr", "revision=v9"], "no such revision.*'v9' of 'google/xtr'"),
    ],
)
def test_what_the_hub_does_not_have_is_one_sentence(
    fetch: Fetch, arguments: list[str], sentence: str
) -> None:
    ended = fetch(*arguments)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert re.search(sentence, ended.stderr)


@pytest.mark.parametrize("others", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_without_a_network_it_says_what_to_put_where(
    fetch: Fetch, tmp_path: Path, others: dict[str, str]
) -> None:
    ended = fetch("google/xtr", **others)
    assert ended.returncode == 1
    for part in (
        "cannot be reached",
        str(tmp_path / "hf"),
        "hf download google/xtr",
        "xtr-tf checkpoint import",
    ):
        assert part in ended.stderr


def test_needed_files() -> None:
    shards = [f"model-0000{part}-of-00003.safetensors" for part in (1, 2, 3)]
    index = "model.safetensors.index.json"
    others = ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin", "flax_model.msgpack"]
    assert needed_files([*shards, index, *others, "config.json", "tokenizer.model", "spiece.model"]) == [
        index,
        *shards,
        "config.json",
        "spiece.model",
    ]
    own = ["encoder.json", "weights.safetensors", "tokenizer.model"]
    assert needed_files([*own, "model.safetensors", "README.md"]) == own
    assert needed_files(["README.md", "config.json"]) == []


def test_what_is_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_hub_id("google/mt5-small")
    for name in ("mt5-small", "/google/mt5", "google/mt5/small", "./mt5"):
        assert not is_hub_id(name)
    (tmp_path / "google" / "mt5-small").mkdir(parents=True)
    assert not is_hub_id("google/mt5-small")
