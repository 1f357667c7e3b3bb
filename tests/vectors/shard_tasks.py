"""Tasks that Beam's workers can import, whose workers are killed."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class KilledTask:
    """Writes a file for every shard; workers that get the shard `fatal` are killed.

    Attributes:
        folder: The folder to write to.
        fatal: The shard.
        times: How many workers are killed.
    """

    folder: str
    fatal: int
    times: int

    def load(self) -> None:
        """Nothing."""

    def run(self, shard: int, loaded: None) -> dict[str, int]:
        """Finishes a shard, or does not."""
        kills = len(list(Path(self.folder).glob("killed-*")))
        if shard == self.fatal and kills < self.times:
            Path(self.folder, f"killed-{kills}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        Path(self.folder, f"done-{shard}").touch()
        return {"shards": 1}


@dataclasses.dataclass(frozen=True)
class FullDiskTask:
    """A task whose workers have no space left."""

    def load(self) -> None:
        """Nothing."""

    def run(self, shard: int, loaded: None) -> dict[str, int]:
        """Fails as a full disk does."""
        raise OSError(28, "No space left on device")
