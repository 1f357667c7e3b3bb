"""The gate finds what is wrong with a model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xtr_tf.errors import InputError
from xtr_tf.retriever import gate
from xtr_tf.retriever.reference_cases import CHECKSUMS_FILE, REFERENCE_FILE


@pytest.fixture
def copy(exact_export, tmp_path) -> Path:
    """An export without checksums, so that only its answers can reveal a change."""
    directory = Path(shutil.copytree(exact_export, tmp_path / "1"))
    (directory / CHECKSUMS_FILE).unlink()
    return directory


def change_reference(directory: Path, change) -> None:
    reference = json.loads((directory / REFERENCE_FILE).read_text())
    change(reference["cases"])
    (directory / REFERENCE_FILE).write_text(json.dumps(reference))


def test_this_process_proves_nothing(copy):
    """It has imported TensorFlow, which the gate must notice."""
    change_reference(copy, lambda cases: cases.clear())
    assert "tensorflow" in sys.modules
    assert gate.replay(copy).problems[-1] == (
        "the process imported Python TensorFlow, so that it proves nothing"
    )


def test_other_answers_are_problems(copy):
    def change(cases):
        cases[:] = [case for case in cases if case["signature"] in ("serving_default", "encode_query")]
        cases[0]["inputs"]["query"]["shape"] = [1, -1]
        cases[-1]["outputs"]["document_ids"]["values"][-1] = "nobody"

    change_reference(copy, change)
    problems = gate.verify_model(copy).problems
    assert "`score` has no reference answer" in problems
    assert "`serving_default`: query 2 finds other documents" in problems
    assert any("must have the shape [?]" in problem for problem in problems)


def test_a_file_that_is_not_the_exporters_is_refused(exact_export, tmp_path):
    """Before anything is loaded, whatever the file is."""
    subprocess.run(["sha256sum", "--check", "--quiet", CHECKSUMS_FILE], cwd=exact_export, check=True)
    copy = Path(shutil.copytree(exact_export, tmp_path / "1"))
    with (copy / REFERENCE_FILE).open("a") as file:
        file.write("\n")
    report = gate.verify_model(copy)
    assert report.cases == {}
    assert report.problems == [
        f"1 of its files are missing or not those that were exported, such as {REFERENCE_FILE}; copy the "
        "version again, or export it again"
    ]


def test_damaged_models(copy):
    data = next((copy / "variables").glob("variables.data-*"))
    content = data.read_bytes()
    data.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="cannot load the model"):
        gate.verify_model(copy)
    shutil.rmtree(copy / "variables")
    with pytest.raises(InputError, match="variables are missing"):
        gate.verify_model(copy)
    (copy / REFERENCE_FILE).write_text("[{")
    with pytest.raises(InputError, match="no readable reference answers"):
        gate.verify_model(copy)
    with pytest.raises(InputError, match="no readable reference answers"):
        gate.verify_model(copy / "absent")


def test_other_weights_are_noticed(copy):
    """One bit in a hundred thousand bytes: the checkpoint's own checksum or the answers reveal it."""
    data = next((copy / "variables").glob("variables.data-*"))
    content = bytearray(data.read_bytes())
    content[len(content) // 3] ^= 0x40
    data.write_bytes(content)
    with pytest.raises(InputError, match="cannot load the model"):
        gate.verify_model(copy)


def test_a_process_that_dies_is_reported(exact_export, monkeypatch):
    monkeypatch.setattr(gate.sys, "executable", "/bin/false")
    with pytest.raises(InputError, match="died with exit code 1"):
        gate.verify_model(exact_export)
