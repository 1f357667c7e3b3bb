"""The same directory, byte for byte, whatever runs the job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from xtr_tf.errors import InputError
from xtr_tf.vectors.beam import NAMESPACE, BeamRunner
from xtr_tf.vectors.encode import encode_corpus

XTR_TF = str(Path(sys.executable).with_name("xtr-tf"))


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def corpus(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    lines = (repository / "examples" / "atlas" / "corpus.jsonl").read_text().splitlines()
    path.write_text("\n".join(lines[::5]))
    return path


@pytest.fixture(scope="module")
def expected(corpus: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("local") / "vectors"
    encode_corpus(corpus, model, out, shard_characters=4000)
    return content(out)


def test_the_direct_runner_in_memory(
    corpus: Path, model: Path, expected: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise Beam would read this process's own command line.
    monkeypatch.setattr(sys, "argv", ["xtr-tf", "--runner=NoSuchRunner", "-v"])
    encode_corpus(
        corpus, model, tmp_path / "out", shard_characters=4000, runner=BeamRunner(["--runner=DirectRunner"])
    )
    assert content(tmp_path / "out") == expected


@pytest.mark.slow
def test_the_direct_runner_in_processes(
    corpus: Path, model: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    command = [XTR_TF, "encode", str(corpus), "--model", str(model)]
    command += ["--out", str(tmp_path / "out"), "--shard-characters=4000", "--runner=DirectRunner", "--"]
    command += ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    subprocess.run(command, check=True)
    assert content(tmp_path / "out") == expected


def test_counters_are_beams_own(
    corpus: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import apache_beam as beam

    results = []
    run = beam.Pipeline.run

    def keep_result(*args: object, **kwargs: object) -> object:
        results.append(run(*args, **kwargs))
        return results[-1]

    monkeypatch.setattr(beam.Pipeline, "run", keep_result)
    report = encode_corpus(corpus, model, tmp_path / "out", shard_characters=4000, runner=BeamRunner())
    counters = {
        counter.key.metric.name: counter.committed
        for counter in results[0].metrics().query()["counters"]
        if counter.key.metric.namespace == NAMESPACE
    }
    assert counters["documents"] == counters["documents_encoded"] == report.manifest.num_documents
    assert counters["tokens"] == report.manifest.num_tokens


def test_a_failed_pipeline_is_one_sentence(
    corpus: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("xtr_tf.vectors.job.write_shard", fail)
    with pytest.raises(
        InputError, match=r"^The Beam pipeline failed \(.*No space left on device.*kept"
    ) as info:
        encode_corpus(corpus, model, tmp_path / "out", runner=BeamRunner())
    assert "\n" not in str(info.value)
