"""The `vertex` section of a configuration: where and on which machines a pipeline runs.

Contains only values. Imports neither TFX nor a cloud library.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from xtr_tf.errors import require

#: A task that loads an index or a corpus. The others stream.
HeavyTask = Literal[
    "NegativeMiner",
    "CorpusEncoder",
    "IndexBuilder",
    "RetrieverExporter",
    "RetrievalEvaluator",
    "ServingValidator",
]
HEAVY_TASKS: tuple[str, ...] = get_args(HeavyTask)


@dataclasses.dataclass(frozen=True)
class WorkerPool:
    """Identical machines of the training job.

    Attributes:
        machine: Type of machine, such as `ct5lp-hightpu-4t`, `cloud-tpu` or `a2-highgpu-8g`.
        accelerator: Type of accelerator, such as `NVIDIA_TESLA_A100` or `TPU_V3`. Empty if the type of
            machine implies it.
        accelerator_count: Number of accelerators per machine.
        tpu_topology: Topology of machines such as `ct5lp-hightpu-4t`, for example `2x2`. It must be that of
            one machine, because TensorFlow trains on the TPUs of several machines only from one process that
            drives them all.
        disk_gb: Disk size per machine in GB. 0 uses Vertex AI's default.
        replicas: Number of machines.
        image: Container image with TensorFlow for the accelerator. Empty uses the pipeline's image.
    """

    machine: str = "n1-standard-16"
    accelerator: str = ""
    accelerator_count: int = 0
    tpu_topology: str = ""
    replicas: int = 1
    image: str = ""
    disk_gb: int = 0

    RENAMED: ClassVar[Mapping[str, str]] = {"accelerators": "accelerator_count"}

    def __post_init__(self) -> None:
        require(bool(self.machine), "`machine` of a worker pool must not be empty.", self.machine)
        require(self.replicas >= 1, "`replicas` of a worker pool must be at least 1.", self.replicas)
        require(
            bool(self.accelerator) == bool(self.accelerator_count),
            "A worker pool has both `accelerator` and `accelerator_count`, or neither.",
            (self.accelerator, self.accelerator_count),
        )
        require(self.disk_gb == 0 or self.disk_gb >= 100, "`disk_gb` must be at least 100.", self.disk_gb)
        chips = re.search(r"-(\d+)t$", self.machine)
        if chips and self.tpu_topology:
            count = math.prod(int(side) for side in re.findall(r"\d+", self.tpu_topology))
            require(
                count == int(chips[1]) and self.replicas == 1,
                f"A worker pool of TPUs is one machine: `tpu_topology` of `{self.machine}` has {chips[1]} "
                "chips, and `replicas` is 1.",
                (self.tpu_topology, self.replicas),
            )


@dataclasses.dataclass(frozen=True)
class DataflowConfig:
    """The workers of Beam components.

    Attributes:
        machine: Type of machine per worker.
        max_workers: Maximum number of workers.
        disk_gb: Disk size per worker in GB.
        subnetwork: Subnetwork for workers without public addresses. Empty uses the default network.
    """

    machine: str = "n1-standard-8"
    max_workers: int = 50
    disk_gb: int = 100
    subnetwork: str = ""

    def __post_init__(self) -> None:
        require(self.max_workers >= 1, "`dataflow.max_workers` must be at least 1.", self.max_workers)
        require(self.disk_gb >= 30, "`dataflow.disk_gb` must be at least 30.", self.disk_gb)


@dataclasses.dataclass(frozen=True)
class TaskMachine:
    """A machine for one task that needs more than `cpu_limit` and `memory_gb`, or a disk.

    Attributes:
        machine: Type of machine, such as `n2-highmem-32`.
        disk_gb: Disk size in GB, for the files that the task reads and writes.
        timeout_hours: Time in hours after which the task is stopped. 0 uses Vertex AI's default, a week.
    """

    machine: str = "n2-highmem-16"
    disk_gb: int = 200
    timeout_hours: float = 0.0

    def __post_init__(self) -> None:
        require(bool(self.machine), "`machine` of a task must not be empty.", self.machine)
        require(self.disk_gb >= 100, "`disk_gb` of a task must be at least 100.", self.disk_gb)
        require(self.timeout_hours >= 0, "`timeout_hours` must not be negative.", self.timeout_hours)


@dataclasses.dataclass(frozen=True)
class VertexConfig:
    """The `vertex` section of a pipeline's configuration.

    Attributes:
        project: Google Cloud project.
        region: Region where everything runs, such as `europe-west4`.
        image: Container image with this package, as `tfx_pipeline/Dockerfile` builds it.
        service_account: Service account of the jobs. Empty uses the project's default.
        network: Network peered with Vertex AI. Empty for none.
        training: Worker pools of the training job, the chief's first.
        dataflow: Workers of the Beam components.
        retries: Number of retries of a failed task. Training continues from its checkpoints.
        training_timeout_hours: Time in hours after which the training job is stopped. 0 uses Vertex AI's
            default, a week.
        schedule: Cron expression of the runs that `xtr-tf pipeline schedule` sets up, optionally with a time
            zone before it: `TZ=Europe/Berlin 0 3 * * *`.
        tasks: Machines and disks of tasks that need their own, by component, such as `IndexBuilder`.
        cpu_limit: Cores of the containers that build, export, evaluate or serve an index.
        memory_gb: Memory of these containers in GB. They need several times the size of an index to write it.
    """

    project: str = ""
    region: str = ""
    image: str = ""
    service_account: str = ""
    network: str = ""
    training: tuple[WorkerPool, ...] = (WorkerPool(),)
    dataflow: DataflowConfig = dataclasses.field(default_factory=DataflowConfig)
    retries: int = 2
    training_timeout_hours: float = 0.0
    schedule: str = ""
    tasks: Mapping[HeavyTask, TaskMachine] = dataclasses.field(default_factory=dict, hash=False)
    cpu_limit: float = 16.0
    memory_gb: float = 64.0

    RENAMED: ClassVar[Mapping[str, str]] = {"cores": "cpu_limit"}

    def __post_init__(self) -> None:
        require(len(self.training) >= 1, "`vertex.training` needs a worker pool.", self.training)
        for name in ("cpu_limit", "memory_gb"):
            require(getattr(self, name) > 0, f"`vertex.{name}` must be positive.", getattr(self, name))
        for name in ("retries", "training_timeout_hours"):
            require(getattr(self, name) >= 0, f"`vertex.{name}` must not be negative.", getattr(self, name))
