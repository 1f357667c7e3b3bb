"""The `vertex` section of a configuration: where and on what a pipeline runs.

Only values: neither TFX nor a cloud library is imported.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from xtr_tf.errors import require

#: A task that holds an index or a corpus; the others stream.
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
    """Machines of the training job that are alike.

    Attributes:
        machine: Type of machine, such as `ct5lp-hightpu-4t`, `cloud-tpu` or `a2-highgpu-8g`.
        accelerator: Such as `NVIDIA_TESLA_A100` or `TPU_V3`; empty where the machine's type says it.
        accelerator_count: How many a machine has.
        tpu_topology: Of machines such as `ct5lp-hightpu-4t`, for example `2x2`; that of one machine, for
            TensorFlow trains on the TPUs of several only from one process that drives them all.
        disk_gb: Disk of a machine; 0 for Vertex AI's default.
        replicas: How many machines.
        image: Container with the accelerator's TensorFlow; empty takes the pipeline's own.
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
    """What Beam's work runs on.

    Attributes:
        machine: Type of machine of a worker.
        max_workers: How many at most.
        disk_gb: Disk of a worker.
        subnetwork: Where workers have no address of their own; empty for the default network.
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
        disk_gb: Its disk; what a task reads and writes lies there.
        timeout_hours: After which it is ended; 0 for Vertex AI's default, a week.
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
        project: Google Cloud's project.
        region: Where everything runs, such as `europe-west4`.
        image: Container with this package, as `tfx_pipeline/Dockerfile` builds it.
        service_account: Who the jobs run as; empty for the project's default.
        network: A network peered with Vertex AI; empty for none.
        training: Worker pools of the training job, the chief's first.
        dataflow: Workers of the Beam components.
        retries: How often a task that failed is tried again; training continues from its checkpoints.
        training_timeout_hours: After which the training job is ended; 0 for Vertex AI's default, a week.
        schedule: When `xtr-tf pipeline schedule` has the job run, as cron writes it, with a time zone before
            it if need be: `TZ=Europe/Berlin 0 3 * * *`.
        tasks: Machines and disks of tasks that need their own, by component, such as `IndexBuilder`.
        cpu_limit: Cores of the container that builds, exports, evaluates or serves an index.
        memory_gb: Its memory; it holds an index several times over while it writes one.
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
