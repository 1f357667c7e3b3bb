"""Runs a configured pipeline on this machine, and reads its results from the metadata store."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ml_metadata.proto import metadata_store_pb2
from tfx.dsl.compiler import constants
from tfx.orchestration import metadata
from tfx.orchestration.local import runner_utils
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.orchestration.portable import launcher, runtime_parameter_utils, tfx_runner
from tfx.proto.orchestration import pipeline_pb2

from tfx_pipeline.config import PipelineConfig, absolute, is_remote
from tfx_pipeline.lineage import Lineage
from tfx_pipeline.pipeline import Dag, create_pipeline
from tfx_pipeline.preflight import check, metadata_file
from tfx_pipeline.runners.local_output import quiet, run_lock
from tfx_pipeline.unchanged import find_unchanged, remember
from tfx_pipeline.withdrawal import note_moved_directories, withdrawn_contents
from xtr_tf.errors import InputError
from xtr_tf.files import storage_sentence
from xtr_tf.progress import shown, track
from xtr_tf.training.progress import TrainingInterruptedError


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Result of a run.

    Attributes:
        components: Result of each component.
        pushed: Directory of the pushed version, or "".
        report: The evaluation's `report.html`.
        reasons: Why the model was blessed or not, one sentence each.
        unchanged: Whether nothing was run because nothing changed since the last run.
    """

    components: tuple[ComponentResult, ...]
    pushed: str
    report: str
    reasons: tuple[str, ...]
    unchanged: bool = False


def run_pipeline(
    config: PipelineConfig, dag: Dag = "full", force: bool = False, hidden: bool = False
) -> Outcome:
    """Runs a pipeline with SQLite metadata.

    Args:
        config: The configuration.
        dag: `full` or `refresh`.
        force: Whether to run even if nothing changed since the last run.
        hidden: Whether to hide the progress within components.

    Returns:
        The version that was pushed, if any, with the reasons.

    Raises:
        InputError: The pipeline cannot run on this machine, or a component failed.
        InterruptedRunError: A signal stopped the run.
    """
    check(config, dag)
    root = Path(absolute(config.root))
    root.mkdir(parents=True, exist_ok=True)
    database = metadata_file(config)
    notes = note_moved_directories(config, database)
    unchanged = None if force else find_unchanged(config, dag, database)
    if unchanged is not None:
        return Outcome((), unchanged.pushed, unchanged.report, (*notes, unchanged.sentence), unchanged=True)
    withdrawn = withdrawn_contents(Lineage(database)) if database.is_file() else {}
    store = sqlite_metadata_connection_config(str(database))
    results = run_locally(create_pipeline(config, dag, store, withdrawn=withdrawn), root, hidden)
    outcome = _outcome(config, results)
    version = int(Path(outcome.pushed).name) if outcome.pushed and not is_remote(outcome.pushed) else 0
    remember(config, dag, database, version, outcome)
    return dataclasses.replace(outcome, reasons=(*notes, *outcome.reasons))


def _outcome(config: PipelineConfig, results: list[ComponentResult]) -> Outcome:
    lineage = Lineage(metadata_file(config))
    made = {
        record.type: record
        for result in results
        if result.execution_id
        for record in lineage.outputs(result.execution_id)
    }
    reasons = [
        reason
        for kind in ("ModelBlessing", "InfraBlessing")
        for reason in str(made[kind].properties.get("reasons", "")).splitlines()
    ]
    pushed = str(made["PushedModel"].properties.get("pushed_destination", ""))
    return Outcome(
        components=tuple(results),
        pushed=pushed if is_remote(pushed) or (pushed and Path(pushed).is_dir()) else "",
        report=str(Path(made["ModelEvaluation"].uri, "report.html")),
        reasons=tuple(reasons),
    )


class InterruptedRunError(Exception):
    """A signal stopped a run. Finished work is kept.

    Args:
        component: Id of the component that was stopped.
        log: Log file of the run.
    """

    def __init__(self, component: str, log: Path) -> None:
        super().__init__(
            f"stopped in {component}; what was finished is kept, and the same command goes on from there "
            f"(log: {log})."
        )


@dataclasses.dataclass(frozen=True)
class ComponentResult:
    """Result of one component of a run.

    Attributes:
        component: Id of the component.
        seconds: Wall time.
        cached: Whether the outputs of an earlier, identical execution were used.
        execution_id: Id in the metadata store. 0 for a component that was skipped.
    """

    component: str
    seconds: float
    cached: bool
    execution_id: int = 0


class LocalRunner(tfx_runner.IrBasedRunner):
    """Launches the components of a pipeline one after another.

    Args:
        started: Called with the id of a component before it runs.
        finished: Called with the result of a component.
    """

    def __init__(self, started: Callable[[str], None], finished: Callable[[ComponentResult], None]) -> None:
        self._started = started
        self._finished = finished

    def run_with_ir(
        self, pipeline: pipeline_pb2.Pipeline, run_options: pipeline_pb2.RunOptions | None = None
    ) -> None:
        """Runs a compiled pipeline. An exception in a component ends the run."""
        del run_options
        run_id = dt.datetime.now(dt.timezone.utc).isoformat()
        runtime_parameter_utils.substitute_runtime_parameter(
            pipeline, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id}
        )
        deployment = runner_utils.extract_local_deployment_config(pipeline)
        connection = deployment.metadata_connection_config
        store = metadata.Metadata(getattr(connection, connection.WhichOneof("connection_config")))
        for node in pipeline.nodes:
            component = node.pipeline_node.node_info.id
            self._started(component)
            start = time.perf_counter()
            info = launcher.Launcher(
                pipeline_node=node.pipeline_node,
                mlmd_connection=store,
                pipeline_info=pipeline.pipeline_info,
                pipeline_runtime_spec=pipeline.runtime_spec,
                executor_spec=runner_utils.extract_executor_spec(deployment, component),
                custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, component),
            ).launch()
            execution = info.execution_id if info is not None else 0
            cached = bool(execution) and _is_cached(store, execution)
            self._finished(ComponentResult(component, time.perf_counter() - start, cached, execution))


def run_locally(pipeline: Pipeline, root: Path, hidden: bool = False) -> list[ComponentResult]:
    """Runs a pipeline under a lock. Prints one line per component. All other output goes to a log file.

    Args:
        pipeline: The pipeline, with SQLite metadata.
        root: Folder of the pipeline, for the lock and the logs.
        hidden: Whether to hide the progress within components.

    Returns:
        The result of each component.

    Raises:
        InputError: A component failed. The message names it, the reason and the log.
        InterruptedRunError: A signal stopped the run.
    """
    results: list[ComponentResult] = []
    stamp = dt.datetime.now(dt.timezone.utc).strftime("%Y%m%dT%H%M%S")
    log = root / "logs" / f"{stamp}.log"
    with run_lock(root), quiet(log) as console, shown(console, quiet=hidden):
        running = ExitStack()
        current = ""

        def started(component: str) -> None:
            nonlocal current
            current = component
            running.enter_context(track(component))

        def finished(result: ComponentResult) -> None:
            running.close()
            results.append(result)
            note = "cached" if result.cached else f"{result.seconds:.1f} s"
            console.print(f"  [green]✓[/] {result.component:28} {note}")

        try:
            LocalRunner(started, finished).run(pipeline)
        except (Exception, KeyboardInterrupt) as error:
            running.close()
            cause = _first_cause(error)
            if isinstance(cause, (KeyboardInterrupt, TrainingInterruptedError)):
                console.print(f"  [yellow]‖[/] {current}")
                raise InterruptedRunError(current, log) from None
            console.print(f"  [red]✗[/] {current}")
            reason = _sentence_of(cause).rstrip(".")
            raise InputError(f"The component {current} failed: {reason} (log: {log}).") from error
    return results


def _is_cached(store: metadata.Metadata, execution_id: int) -> bool:
    with store as handle:
        executions = handle.store.get_executions_by_id([execution_id])
    return bool(executions) and executions[0].last_known_state == metadata_store_pb2.Execution.CACHED


def _first_cause(error: BaseException) -> BaseException:
    """Returns the exception that began the chain, which is the one a user can act on."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return error


def _sentence_of(error: BaseException) -> str:
    lines = (storage_sentence(error, Path.cwd()) or str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__
