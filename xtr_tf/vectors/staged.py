"""Encodes on workers that share no file system with this machine, such as those of Dataflow.

The job itself stays here: the plan, finished shards and the manifest. A staging folder that both sides can
access (`gs://`, `s3://`, `hdfs://`, or any other file system of Beam) carries the model and the files of each
shard to the workers, and results back. Vectors to reuse are read from where they are, if workers can access
that, and staged otherwise: only the shards that have them. The file that says that a folder is complete is
sent last. A finished result is not made again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from xtr_tf.errors import InputError
from xtr_tf.files import MARKER, atomic_directory, checksums_of
from xtr_tf.model.folder import MANIFEST_FILE as MODEL_FILE
from xtr_tf.model.folder import read_manifest
from xtr_tf.vectors.job import EarlierVectors, EncodingJob
from xtr_tf.vectors.manifest import MANIFEST_FILE
from xtr_tf.vectors.plan import WORK_FOLDER, ShardPlan, reuse_file
from xtr_tf.vectors.runners import Runner
from xtr_tf.vectors.shard import ENTRY_FILE

_MIME_TYPE = "application/octet-stream"


class FileTask(Protocol):
    """A task on the shards of an encoding job that says which files it reads and writes: see `JobTask`."""

    @property
    def shared(self) -> Sequence[str]:
        """Folders that `load` reads, below the directory of the job."""
        ...

    @property
    def job(self) -> EncodingJob:
        """The job."""
        ...

    def with_job(self, job: EncodingJob) -> FileTask:
        """Returns the same task of another job."""
        ...

    def inputs(self, shard: ShardPlan) -> Sequence[str]:
        """Returns the files that `run` reads, below the directory of the job."""
        ...

    def output(self, shard: ShardPlan) -> str:
        """Returns the file or folder that `run` writes, below the directory of the job."""
        ...

    def load(self) -> Any:
        """Loads what all shards of a process share."""
        ...

    def run(self, shard: ShardPlan, loaded: Any) -> Mapping[str, int]:
        """Finishes a shard, and returns counters."""
        ...


@dataclasses.dataclass(frozen=True)
class StagedTask:
    """A task of remote workers.

    Attributes:
        task: The task.
        staging: The folder that both sides can access.
        shared: Addresses of what `load` needs, by their paths below a folder of the worker.
        earlier: Address of the vectors to reuse, or "".
    """

    task: FileTask
    staging: str
    shared: Mapping[str, str]
    earlier: str

    def load(self) -> Any:
        """Downloads and loads what all shards of a process share.

        Returns:
            What the task itself loads.
        """
        with tempfile.TemporaryDirectory() as folder:
            for name, address in self.shared.items():
                download(address, Path(folder, name))
            return self._of(Path(folder)).load()

    def run(self, shard: ShardPlan, loaded: Any) -> Mapping[str, int]:
        """Downloads the files of a shard, finishes it as every runner does, and uploads the result.

        Args:
            shard: The plan of the shard.
            loaded: The result of `load`.

        Returns:
            Counters of the shard.
        """
        with tempfile.TemporaryDirectory() as folder:
            here, task = Path(folder), self._of(Path(folder))
            for name in self.task.inputs(shard):
                _copy_in(self.address(shard, name), Path(task.job.out, name))
            if task.job.reuse:
                self._fetch_earlier(Path(task.job.reuse), reuse_file(here / "out" / WORK_FOLDER, shard.index))
            counts = task.run(shard, loaded)
            result = Path(task.job.out, task.output(shard))
            upload(result, self.address(shard, task.output(shard)), last=ENTRY_FILE)
        return counts

    def address(self, shard: ShardPlan, name: str) -> str:
        """Returns the address of a file or folder of a shard.

        Args:
            shard: The plan of the shard.
            name: Its path below the directory of the job.

        Returns:
            A path in the staging folder.
        """
        return FileSystems.join(self.staging, f"{shard.name}-{shard.key}", *name.split("/"))

    def finished(self, shard: ShardPlan) -> bool:
        """Returns whether a result was uploaded completely.

        Args:
            shard: The plan of the shard.

        Returns:
            True if the file, or the `shard.json` of a folder, which is sent last, is there.
        """
        name = self.task.output(shard)
        last = f"{name}/{ENTRY_FILE}" if name == shard.name else name
        return bool(FileSystems.exists(self.address(shard, last)))

    def _of(self, folder: Path) -> FileTask:
        """Returns the task with its files in a folder of this machine."""
        job = EncodingJob(
            model=str(folder / "model"),
            out=str(folder / "out"),
            reuse=str(folder / "earlier") if self.earlier else "",
            config=self.task.job.config,
        )
        return self.task.with_job(job)

    def _fetch_earlier(self, folder: Path, ordinals: Path) -> None:
        """Downloads the manifest of earlier vectors, and the shards with the documents of this one."""
        _copy_in(FileSystems.join(self.earlier, MANIFEST_FILE), folder / MANIFEST_FILE)
        for name in EarlierVectors(folder).shards_of(np.load(ordinals)):
            download(FileSystems.join(self.earlier, name), folder / name)


@dataclasses.dataclass(frozen=True)
class StagedRunner:
    """Runs tasks of encoding jobs through a staging folder. Its content may be removed afterwards.

    Attributes:
        runner: The runner for the workers, a `BeamRunner`.
        staging: The folder that both sides can access.
        earlier: Address at which workers find the vectors that a job reuses. If it is "", they are staged.
    """

    runner: Runner
    staging: str
    earlier: str = ""

    def __call__(self, task: FileTask, shards: Sequence[ShardPlan]) -> None:
        """Finishes the shards on remote workers and downloads the results.

        Args:
            task: The task: an encoding job, or one on its shards.
            shards: The shards.

        Raises:
            InputError: If the staging folder cannot be used.
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

    def _run(self, task: FileTask, shards: Sequence[ShardPlan]) -> None:
        job = task.job
        shared = {"model": self._send_model(Path(job.model))}
        shared |= {f"out/{name}": self._send_once(Path(job.out, name)) for name in task.shared}
        remote = StagedTask(task, self.staging, shared, self._earlier(job))
        pending = [shard for shard in shards if not remote.finished(shard)]
        for shard in pending:
            for name in task.inputs(shard):
                _copy_out(Path(job.out, name), remote.address(shard, name))
            if job.reuse and not self.earlier:
                self._send_earlier(job, shard, remote.earlier)
        if pending:
            self.runner(remote, pending)
        for shard in shards:
            _bring(remote.address(shard, task.output(shard)), Path(job.out, task.output(shard)))

    def _send_model(self, model: Path) -> str:
        address = FileSystems.join(self.staging, f"model-{read_manifest(model).fingerprint}")
        if not FileSystems.exists(FileSystems.join(address, MODEL_FILE)):
            upload(model, address, last=MODEL_FILE)
        return address

    def _send_once(self, folder: Path) -> str:
        """Uploads a folder under the hash of its content, and returns its address."""
        content = checksums_of(folder)
        address = FileSystems.join(self.staging, f"shared-{hashlib.sha256(content.encode()).hexdigest()}")
        if not FileSystems.exists(FileSystems.join(address, MARKER)):
            upload(folder, address, last="")
            with FileSystems.create(FileSystems.join(address, MARKER), _MIME_TYPE) as marker:
                marker.write(content.encode())
        return address

    def _earlier(self, job: EncodingJob) -> str:
        """Returns the address of the vectors to reuse, or the one to which they will be sent."""
        if not job.reuse or self.earlier:
            return self.earlier if job.reuse else ""
        digest = hashlib.sha256(Path(job.reuse, MANIFEST_FILE).read_bytes()).hexdigest()
        return FileSystems.join(self.staging, f"earlier-{digest}")

    def _send_earlier(self, job: EncodingJob, shard: ShardPlan, address: str) -> None:
        """Uploads the manifest of earlier vectors, and the shards with the documents of this one."""
        manifest = FileSystems.join(address, MANIFEST_FILE)
        if not FileSystems.exists(manifest):
            _copy_out(Path(job.reuse, MANIFEST_FILE), manifest)
        ordinals = np.load(reuse_file(Path(job.out) / WORK_FOLDER, shard.index))
        for name in EarlierVectors(Path(job.reuse)).shards_of(ordinals):
            if not FileSystems.exists(FileSystems.join(address, name, ENTRY_FILE)):
                upload(Path(job.reuse, name), FileSystems.join(address, name), last=ENTRY_FILE)


def _bring(address: str, path: Path) -> None:
    """Downloads a file, or a folder that appears when it is complete."""
    if path.suffix:
        _copy_in(address, path)
        return
    with atomic_directory(path, overwrite=True) as folder:
        download(address, folder)


def upload(source: Path, destination: str, last: str) -> None:
    """Uploads a file, or the files of a folder, `last` after the others.

    Args:
        source: A file or folder on this machine.
        destination: An address that Beam supports, such as `gs://bucket/folder`.
        last: The file that shows, when it has arrived, that all files have.
    """
    if source.is_file():
        _copy_out(source, destination)
        return
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    for name in sorted(files, key=lambda name: (name.as_posix() == last, name)):
        _copy_out(source / name, FileSystems.join(destination, *name.parts))


def download(source: str, folder: Path) -> None:
    """Downloads the files of a folder.

    Args:
        source: An address that Beam supports.
        folder: A folder on this machine.
    """
    for found in FileSystems.match([FileSystems.join(source, "**")])[0].metadata_list:
        _copy_in(found.path, folder / found.path[len(source) :].lstrip("/"))


def _copy_out(path: Path, destination: str) -> None:
    parent = FileSystems.split(destination)[0]
    if not FileSystems.exists(parent):
        FileSystems.mkdirs(parent)
    with (
        path.open("rb") as source,
        FileSystems.create(destination, _MIME_TYPE, CompressionTypes.UNCOMPRESSED) as sink,
    ):
        shutil.copyfileobj(source, sink)


def _copy_in(source: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        FileSystems.open(source, _MIME_TYPE, CompressionTypes.UNCOMPRESSED) as stream,
        path.open("wb") as file,
    ):
        shutil.copyfileobj(stream, file)
