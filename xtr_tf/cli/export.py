"""`xtr-tf export`: one servable model from encoder, token vectors and index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xtr_tf.cli import options
from xtr_tf.cli.progress import Depth, Quiet, next_command

if TYPE_CHECKING:
    from xtr_tf.retriever.export import Export
    from xtr_tf.retriever.export_partitions import PartitionExport
    from xtr_tf.retriever.model_card import ModelCard


def export(
    vectors: Annotated[Path, typer.Argument(help="Token vectors of the corpus, from `xtr-tf encode`.")],
    model: Annotated[Path, typer.Option(help="The encoder's directory.")],
    index: Annotated[Path, typer.Option(help="The index of the vectors, from `xtr-tf index`.")],
    out: Annotated[Path, typer.Option(help="The model's base directory, for the new version.")],
    version: options.Version = None,
    k_prime: options.KPrime = 1000,
    top_k: options.TopK = 10,
    leaves: options.Leaves = 0,
    imputation: options.Imputation = "top_k_prime",
    constant: options.Constant = 0.0,
    rescore: options.Rescore = 0,
    token_weights: options.TokenWeights = "none",
    min_score: options.MinScore = -1e30,
    alpha: options.Alpha = 0.0,
    fusion: options.Fusion = "weighted",
    store_text: options.StoreText = "full",
    keep_spans: options.KeepSpans = True,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Number of models to split the documents into, one per server.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Partitions to export at the same time.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Write a version of a model; it is published only if a fresh process gives the same answers."""
    from xtr_tf.config.retrieval import SearchDefaults
    from xtr_tf.progress import shown, track
    from xtr_tf.retriever.assembly import assemble_retriever
    from xtr_tf.retriever.export import export_retriever

    defaults = options.chosen(SearchDefaults, locals())
    if partitions is not None:
        from xtr_tf.retriever.export_partitions import PartitionExport

        job = PartitionExport(
            *(str(model), str(vectors), str(index), partitions, defaults, store_text, keep_spans)
        )
        with shown(quiet=quiet):
            _export_partitions(job, out, version, processes)
        return
    with shown(quiet=quiet):
        with track("load encoder, vectors and index"):
            assembly = assemble_retriever(model, vectors, index, defaults, store_text, keep_spans)
        exported = export_retriever(assembly.retriever, out, assembly.card, version)
    print_export(exported, assembly.card)
    next_command(f"xtr-tf serve --model-base {out}")


def _export_partitions(job: PartitionExport, out: Path, version: int | None, processes: int) -> None:
    from xtr_tf.retriever.collection_file import COLLECTION_FILE
    from xtr_tf.retriever.export_partitions import export_partitions

    collection = export_partitions(job, out, version, processes)
    typer.echo(
        f"published version {collection.version} of {out / COLLECTION_FILE}: {collection.documents} "
        f"documents, {collection.tokens} tokens"
    )
    for entry in collection.partitions:
        typer.echo(f"  {entry.path}/{entry.version}: {entry.documents} documents, {entry.tokens} tokens")
    next_command(f"xtr-tf serve --model-base {out / collection.partitions[0].path} --keep-versions 2")


def print_export(exported: Export, card: ModelCard) -> None:
    """Prints what was published, and what the gate found."""
    from rich.console import Console

    corpus, report = card.corpus, exported.report
    size = sum(path.stat().st_size for path in exported.directory.rglob("*") if path.is_file())
    console = Console()
    console.print(f"[green]published[/] {exported.directory}", highlight=False, soft_wrap=True)
    console.print(
        f"  {corpus['documents']} documents, {corpus['tokens']} tokens, {size / 1e6:.1f} MB; "
        f"loads in {report.load_seconds:.2f} s, {sum(report.cases.values())} answers checked",
        highlight=False,
    )


def verify(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A version's directory, or the base directory of several.")
    ],
    processes: Annotated[
        int, typer.Option(min=1, help="Fresh processes to check in, one after the other.")
    ] = 1,
    check: Annotated[
        Depth, typer.Option(help="`fast`: one request per signature; `full`: all recorded requests.")
    ] = Depth.full,
    quiet: Quiet = False,
) -> None:
    """Load a model as TensorFlow Serving does, in a fresh process, and replay its reference answers."""
    from rich.console import Console
    from rich.markup import escape

    from xtr_tf.errors import InputError
    from xtr_tf.progress import shown, track
    from xtr_tf.retriever.gate import OLD_FORMS, verify_model
    from xtr_tf.retriever.versions import latest_version

    directory = latest_version(model)
    console = Console()
    for _ in range(processes):
        with shown(quiet=quiet), track("load in a fresh process and compare"):
            report = verify_model(directory, fast=check == Depth.fast)
        if report.form in OLD_FORMS:
            console.print(f"[yellow]old[/] {OLD_FORMS[report.form]}", highlight=False, soft_wrap=True)
        if not report.passed:
            for problem in report.problems:
                console.print(f"[red]wrong[/] {escape(problem)}", highlight=False)
            raise InputError(
                "The model does not give the answers it was exported with; copy it whole, or export it "
                "again. "
                f"Received: {str(directory)!r} ({len(report.problems)} problems)."
            )
        answers = ", ".join(f"{name} {count}" for name, count in sorted(report.cases.items()))
        libraries = ", ".join(report.op_libraries) or "none"
        console.print(f"[green]ok[/] answers: {answers}", highlight=False, soft_wrap=True)
        console.print(f"   loaded in {report.load_seconds:.2f} s, op libraries: {libraries}", highlight=False)
