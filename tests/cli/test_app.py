"""The command line as a user meets it: real processes, their output and exit codes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from xtr_tf.version import __version__

COMMAND = str(Path(sys.executable).parent / "xtr-tf")


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]


def test_version() -> None:
    assert run("--version").stdout == f"xtr-tf {__version__}\n"


def test_help_answers_in_under_a_second() -> None:
    durations = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "doctor" in run("--help").stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Processor time: the wall clock also counts whatever else the machine is doing.
        durations.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(durations) < 1.0


def test_config_show_prints_a_usable_file(tmp_path: Path) -> None:
    shown = run("config", "show", "--set", "encoder.preset=t5_small")
    assert shown.returncode == 0
    assert yaml.safe_load(shown.stdout)["encoder"]["num_heads"] == 8
    file = tmp_path / "again.yaml"
    file.write_text(shown.stdout)
    assert run("config", "show", str(file)).stdout == shown.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["config", "shw"], 2, "No such command 'shw'"),
        (["--nonsense"], 2, "No such option"),
        (["config", "show", "absent.yaml"], 1, "does not exist"),
        (["config", "show", "--set", "encoder.dropuot=1"], 1, "did you mean `encoder.dropout`?"),
    ],
)
def test_bad_input_ends_with_one_sentence(arguments: list[str], code: int, sentence: str) -> None:
    ended = run(*arguments)
    assert ended.returncode == code
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


def test_a_group_without_a_command_prints_its_help() -> None:
    ended = run("config")
    assert "Usage" in ended.stdout
    assert ended.stderr == ""


def test_doctor_is_quiet_and_content() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    ended = run("doctor", env=environment)
    assert ended.returncode == 0, ended.stdout
    assert "scann ops" in ended.stdout
    assert "wrong" not in ended.stdout
    assert ended.stderr == ""


def test_doctor_names_the_remedy(tmp_path: Path) -> None:
    ended = run("doctor", str(tmp_path / "absent"))
    assert ended.returncode == 1
    assert "remedy disk: name a folder that exists." in ended.stdout


def test_output_cut_short_by_its_reader_ends_without_a_word() -> None:
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {COMMAND} config presets | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr == ""
