"""Runs tasks on workers that share no file system with this machine, such as those of Dataflow.

The job itself stays here: the plan, finished shards and the manifest. A staging folder that both sides can
access (see `remote.py`) carries what a task loads and the files of each shard to the workers, and results
back. Vectors to reuse are read from where they are, if workers can access that, and staged otherwise: only
the shards that have them. A finished result is not made again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from xtr_tf.errors import InputError
from xtr_tf.files import checksums_of
from xtr_tf.vectors.job import EarlierVectors, EncodingJob, JobTask
from xtr_tf.vectors.manifest import MANIFEST_FILE
from xtr_tf.vectors.plan import WORK_FOLDER, ShardPlan, reuse_file
from xtr_tf.vectors.remote import RemoteFolder, copy_in, copy_out, is_sent, join, receive, send
from xtr_tf.vectors.runners import Runner


class FileTask(Protocol):
    """A task that says which files it reads and writes."""

    @property
    def directory(self) -> str:
        """The directory that the files of shards are in."""
        ...

    def within(self, folder: Path) -> FileTask:
        """Returns the same task with its files in a folder of a worker."""
        ...

    def shared(self) -> Mapping[str, str]:
        """Returns the folders that `load` reads, by their places in the folder of a worker."""
        ...

    def place(self, shard: Any) -> str:
        """Returns a name for the files of a shard that no other shard of any job has."""
        ...

    def inputs(self, shard: Any) -> Sequence[str]:
        """Returns the files that `run` reads, below the directory."""
        ...

    def output(self, shard: Any) -> str:
        """Returns the folder, or the file with a suffix, that `run` writes, below the directory."""
        ...

    def load(self) -> Any:
        """Loads what all shards of a process share."""
        ...

    def run(self, shard: Any, loaded: Any) -> Mapping[str, int]:
        """Finishes a shard, and returns counters."""
        ...


@dataclasses.dataclass(frozen=True)
class StagedTask:
    """A task of remote workers.

    Attributes:
        task: The task.
        staging: The folder that both sides can access.
        shared: Addresses of what `load` needs, by their places in the folder of a worker.
    """

    task: FileTask
    staging: str
    shared: Mapping[str, str]

    def load(self) -> Any:
        """Downloads and loads what all shards of a process share.

        Returns:
            What the task itself loads.
        """
        with tempfile.TemporaryDirectory() as folder:
            for place, address in self.shared.items():
                receive(address, Path(folder, place))
            return self.task.within(Path(folder)).load()

    def run(self, shard: Any, loaded: Any) -> Mapping[str, int]:
        """Downloads the files of a shard, finishes it as every runner does, and uploads the result.

        Args:
            shard: The shard.
            loaded: The result of `load`.

        Returns:
            Counters of the shard.
        """
        with tempfile.TemporaryDirectory() as folder:
            task = self.task.within(Path(folder))
            Path(task.directory).mkdir(parents=True, exist_ok=True)
            for name in task.inputs(shard):
                copy_in(self.address(shard, name), Path(task.directory, name))
            counts = task.run(shard, loaded)
            send(Path(task.directory, task.output(shard)), self.result(shard))
        return counts

    def address(self, shard: Any, name: str) -> str:
        """Returns the address of a file or folder of a shard.

        Args:
            shard: The shard.
            name: Its path below the directory of the task.

        Returns:
            A path in the staging folder.
        """
        return join(self.staging, f"{self.task.place(shard)}/{name}")

    def result(self, shard: Any) -> str:
        """Returns the folder that the result of a shard is sent to.

        Args:
            shard: The shard.

        Returns:
            A path in the staging folder.
        """
        return self.address(shard, f"{self.task.output(shard)}.result")


@dataclasses.dataclass(frozen=True)
class StagedRunner:
    """Runs tasks through a staging folder. Its content may be removed afterwards.

    Attributes:
        runner: The runner for the workers, a `BeamRunner`.
        staging: The folder that both sides can access.
    """

    runner: Runner
    staging: str

    def __call__(self, task: FileTask, shards: Sequence[Any]) -> None:
        """Finishes the shards on remote workers and downloads the results.

        Args:
            task: The task.
            shards: The shards.

        Raises:
            InputError: If the staging folder cannot be used, or if a result was damaged.
        """
        try:
            FileSystems.get_filesystem(self.staging)
        except ValueError as error:
            raise InputError(
                "Beam has no file system for this address; install the package that has it, such as "
                f"apache-beam[gcp]. Received: {self.staging!r}."
            ) from error
        try:
            self._run(task, shards)
        except BeamIOError as error:
            raise InputError(
                f"The staging folder cannot be used ({error}); check its address and your permissions. "
                f"Received: {self.staging!r}."
            ) from error

    def _run(self, task: FileTask, shards: Sequence[Any]) -> None:
        shared = {place: self._send_once(Path(folder)) for place, folder in task.shared().items()}
        remote = StagedTask(task, self.staging, shared)
        pending = [shard for shard in shards if not is_sent(remote.result(shard))]
        for shard in pending:
            for name in task.inputs(shard):
                copy_out(Path(task.directory, name), remote.address(shard, name))
        if pending:
            self.runner(dataclasses.replace(remote, task=self._reusing(task, pending)), pending)
        for shard in shards:
            receive(remote.result(shard), Path(task.directory, task.output(shard)))

    def _send_once(self, folder: Path) -> str:
        """Sends a folder under the hash of its content, and returns its address."""
        digest = hashlib.sha256(checksums_of(folder).encode()).hexdigest()
        address = join(self.staging, f"shared-{digest}")
        if not is_sent(address):
            send(folder, address)
        return address

    def _reusing(self, task: FileTask, shards: Sequence[ShardPlan]) -> FileTask:
        """Returns the task with vectors to reuse that workers can read. Sends those that are only here."""
        if (
            not isinstance(task, EncodingJob | JobTask)
            or task.job.reuse is None
            or not task.job.reuse.is_here
        ):
            return task
        job, earlier = task.job, task.job.reuse
        manifest = earlier.file(MANIFEST_FILE)
        digest = hashlib.sha256(manifest.read_bytes()).hexdigest()
        address = join(self.staging, f"earlier-{digest}")
        copy_out(manifest, join(address, MANIFEST_FILE))
        vectors = EarlierVectors(earlier)
        for shard in shards:
            for name in vectors.shards_of(np.load(reuse_file(Path(job.out) / WORK_FOLDER, shard.index))):
                if not is_sent(join(address, name)):
                    send(earlier.folder(name), join(address, name))
        return task.with_job(dataclasses.replace(job, reuse=RemoteFolder(address)))
