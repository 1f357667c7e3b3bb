"""The command line from a user's view: output and exit codes, in real processes where that matters."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.processes import COMMAND, call_command, run_command
from xtr_tf.version import __version__


def test_version() -> None:
    assert run_command("--version").stdout == f"xtr-tf {__version__}\n"


def test_help_answers_in_under_a_second() -> None:
    durations = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "doctor" in run_command("--help").stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Processor time: the wall clock also counts whatever else the machine is doing.
        durations.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(durations) < 1.0


def test_config_show_prints_a_usable_file(tmp_path: Path) -> None:
    shown = run_command("config", "show", "--set", "encoder.preset=t5_small")
    assert shown.returncode == 0
    assert yaml.safe_load(shown.stdout)["encoder"]["num_heads"] == 8
    file = tmp_path / "again.yaml"
    file.write_text(shown.stdout)
    assert call_command("config", "show", file).stdout == shown.stdout


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
    ended = call_command(*arguments)
    assert ended.returncode == code
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


def test_bad_input_in_a_new_process() -> None:
    ended = run_command("config", "show", "absent.yaml")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1


def test_a_group_without_a_command_prints_its_help() -> None:
    ended = call_command("config")
    assert "Usage" in ended.stdout
    assert ended.stderr == ""


def test_doctor_is_quiet_and_finds_nothing_wrong() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    ended = run_command("doctor", env=environment)
    assert ended.returncode == 0, ended.stdout
    assert "scann ops" in ended.stdout
    assert "wrong" not in ended.stdout
    assert ended.stderr == ""


def test_doctor_names_the_remedy(tmp_path: Path) -> None:
    ended = call_command("doctor", tmp_path / "absent")
    assert ended.returncode == 1
    assert "remedy disk: name a folder that exists." in ended.stdout


def test_output_that_its_reader_cuts_short_ends_silently() -> None:
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {COMMAND} config presets | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr == ""
