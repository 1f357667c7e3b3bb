"""Worker processes of Beam's direct runner that are killed, or have no disk left."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xtr_tf.errors import InputError
from xtr_tf.vectors.beam import BeamRunner

sys.path.insert(0, str(Path(__file__).parent))

from shard_tasks import FullDiskTask, KilledTask

RUNNER = BeamRunner(["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
pytestmark = [pytest.mark.pipeline, pytest.mark.slow]


def test_the_work_of_a_killed_worker_is_done_by_another(tmp_path: Path) -> None:
    RUNNER(KilledTask(str(tmp_path), fatal=3, times=1), range(6))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"done-{shard}" for shard in range(6)),
        "killed-0",
    ]


def test_workers_that_are_killed_again_and_again_end_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xtr_tf.vectors.beam_processes.ATTEMPTS", 2)
    with pytest.raises(InputError, match="were killed 2 times, perhaps because memory ran out"):
        RUNNER(KilledTask(str(tmp_path), fatal=0, times=99), range(3))
    assert len(list(tmp_path.glob("killed-*"))) == 2


def test_a_full_disk_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"^The Beam pipeline failed \(.*No space left on device") as info:
        RUNNER(FullDiskTask(), range(3))
    assert "\n" not in str(info.value)
