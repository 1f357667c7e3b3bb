"""Encodes on workers that share no file system with this machine, such as those of Dataflow.

The job itself stays here: the plan, finished shards and the manifest. A staging folder that both sides can
access (`gs://`, `s3://`, `hdfs://`, or any other file system of Beam) carries the model and the plans of
shards to the workers, and finished shards back. `shard.json` is sent last, so a shard without it is not
finished. A finished shard is not encoded again.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory
from xtr_tf.model.folder import MANIFEST_FILE as MODEL_FILE
from xtr_tf.model.folder import read_manifest
from xtr_tf.vectors.document_encoder import DocumentEncoder
from xtr_tf.vectors.job import EncodingJob
from xtr_tf.vectors.plan import WORK_FOLDER, ShardPlan, documents_file
from xtr_tf.vectors.runners import Runner
from xtr_tf.vectors.shard import ENTRY_FILE

_MIME_TYPE = "application/octet-stream"


@dataclasses.dataclass(frozen=True)
class StagedEncoding:
    """The task for remote workers.

    Attributes:
        staging: The folder that both sides can access.
        model: The folder of the model in it.
        config: Settings, resolved.
    """

    staging: str
    model: str
    config: EncodingConfig

    def load(self) -> DocumentEncoder:
        """Downloads and loads the encoder, once per process.

        Returns:
            The document encoder.
        """
        with tempfile.TemporaryDirectory() as folder:
            download(FileSystems.join(self.staging, self.model), Path(folder))
            return DocumentEncoder.load(folder, self.config)

    def run(self, shard: ShardPlan, encoder: DocumentEncoder) -> dict[str, int]:
        """Downloads the plan of a shard, encodes it as every runner does, and uploads the result.

        Args:
            shard: The plan of the shard.
            encoder: The document encoder.

        Returns:
            Counters of the shard.
        """
        with tempfile.TemporaryDirectory() as folder:
            job = EncodingJob(model="", out=folder, reuse="", config=self.config)
            plan = documents_file(Path(folder) / WORK_FOLDER, shard.index)
            plan.parent.mkdir()
            _copy_in(self.plan(shard), plan)
            counts = job.run(shard, encoder)
            upload(Path(folder) / shard.name, self.result(shard), last=ENTRY_FILE)
        return counts

    def plan(self, shard: ShardPlan) -> str:
        """Returns the address of a shard's plan.

        Args:
            shard: The plan of the shard.

        Returns:
            A path in the staging folder.
        """
        return FileSystems.join(self.staging, f"plan-{shard.key}.jsonl")

    def result(self, shard: ShardPlan) -> str:
        """Returns the address of a finished shard.

        Args:
            shard: The plan of the shard.

        Returns:
            A path in the staging folder.
        """
        return FileSystems.join(self.staging, f"{shard.name}-{shard.key}")

    def finished(self, shard: ShardPlan) -> bool:
        """Returns whether a shard was uploaded completely.

        Args:
            shard: The plan of the shard.

        Returns:
            True if its `shard.json`, which is sent last, is there.
        """
        return bool(FileSystems.exists(FileSystems.join(self.result(shard), ENTRY_FILE)))


@dataclasses.dataclass(frozen=True)
class StagedRunner:
    """Runs encoding jobs through a staging folder. Its content may be removed afterwards.

    Attributes:
        runner: The runner for the workers, a `BeamRunner`.
        staging: The folder that both sides can access.
    """

    runner: Runner
    staging: str

    def __call__(self, job: EncodingJob, shards: Sequence[ShardPlan]) -> None:
        """Encodes the shards on remote workers and downloads them.

        Args:
            job: The encoding job. It must not reuse vectors.
            shards: The shards to encode.

        Raises:
            InputError: If the job reuses vectors, or if the staging folder cannot be used.
        """
        if job.reuse:
            raise InputError(
                "Vectors are reused on the machine that has them; leave out staging, or reuse. "
                f"Received: staging {self.staging!r}, reuse {job.reuse!r}."
            )
        try:
            FileSystems.get_filesystem(self.staging)
        except ValueError as error:
            raise InputError(
                "Beam has no file system for this address; install the package that has it, such as "
                f"apache-beam[gcp]. Received: {self.staging!r}."
            ) from error
        try:
            self._run(job, shards)
        except BeamIOError as error:
            raise InputError(
                f"The staging folder cannot be used ({error}); check its address and your permissions. "
                f"Received: {self.staging!r}."
            ) from error

    def _run(self, job: EncodingJob, shards: Sequence[ShardPlan]) -> None:
        model = f"model-{read_manifest(Path(job.model)).fingerprint}"
        task = StagedEncoding(self.staging, model, job.config)
        sent = FileSystems.join(self.staging, model)
        if not FileSystems.exists(FileSystems.join(sent, MODEL_FILE)):
            upload(Path(job.model), sent, last=MODEL_FILE)
        pending = [shard for shard in shards if not task.finished(shard)]
        for shard in pending:
            _copy_out(documents_file(Path(job.out) / WORK_FOLDER, shard.index), task.plan(shard))
        if pending:
            self.runner(task, pending)
        for shard in shards:
            with atomic_directory(Path(job.out) / shard.name, overwrite=True) as folder:
                download(task.result(shard), folder)


def upload(folder: Path, destination: str, last: str) -> None:
    """Uploads the files of a folder, `last` after the others.

    Args:
        folder: A folder on this machine.
        destination: An address that Beam supports, such as `gs://bucket/folder`.
        last: The file that shows, when it has arrived, that all files have.
    """
    for path in sorted(folder.iterdir(), key=lambda path: (path.name == last, path.name)):
        _copy_out(path, FileSystems.join(destination, path.name))


def download(source: str, folder: Path) -> None:
    """Downloads the files of a folder.

    Args:
        source: An address that Beam supports.
        folder: A folder on this machine.
    """
    for found in FileSystems.match([FileSystems.join(source, "*")])[0].metadata_list:
        _copy_in(found.path, folder / FileSystems.split(found.path)[1])


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
    with (
        FileSystems.open(source, _MIME_TYPE, CompressionTypes.UNCOMPRESSED) as stream,
        path.open("wb") as file,
    ):
        shutil.copyfileobj(stream, file)
