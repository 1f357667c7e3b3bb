"""`xtr-tf mine`: hard negatives for training pairs, by BM25 or an exported model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xtr_tf.cli.progress import Quiet, next_command
from xtr_tf.errors import InputError, needs_extra

if TYPE_CHECKING:
    from xtr_tf.collections.document import Document
    from xtr_tf.evaluation.mining import Rank


def mine(
    training: Annotated[
        str, typer.Argument(help="Queries with positives: JSONL, TSV, TFRecord, a pattern, or a BEIR folder.")
    ],
    out: Annotated[Path, typer.Option(help="JSONL file to write, in the training format.")],
    corpus: Annotated[
        Path | None, typer.Option(help="Where negatives come from; by default the training data's documents.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="An exported model of that corpus; without it BM25 ranks.")
    ] = None,
    bm25: Annotated[str, typer.Option(help="Terms of BM25: words or ngrams.")] = "words",
    negatives: Annotated[int, typer.Option(help="Maximum number per query.")] = 4,
    ranks: Annotated[str, typer.Option(help="Ranks to take them from, FIRST-LAST.")] = "1-50",
    margin: Annotated[
        float | None,
        typer.Option(help="Only documents that score lower than the positives by this share, such as 0.05."),
    ] = None,
    same_title: Annotated[
        bool, typer.Option("--same-title", help="Also use documents with a positive's title.")
    ] = False,
    split: Annotated[str, typer.Option(help="Which queries of a folder.")] = "train",
    max_bad_records: Annotated[
        float, typer.Option(help="Records that may be skipped; below 1, the share of all.")
    ] = 0,
    quiet: Quiet = False,
) -> None:
    """Find hard negatives: documents that rank high for a query and are not its positives."""
    from xtr_tf.collections.bad_records import BadRecords
    from xtr_tf.collections.corpus import CorpusReader
    from xtr_tf.config.training import SourceConfig
    from xtr_tf.evaluation.mining import MiningSettings, mine_negatives, to_json
    from xtr_tf.files import write_atomically
    from xtr_tf.progress import shown
    from xtr_tf.training.data.sources import dataset_of_examples, open_source

    settings = MiningSettings(negatives, *_window(ranks), margin=margin, same_title=same_title)
    if model is not None and corpus is None:
        raise InputError(
            "A model ranks the documents of its index; give its --corpus. Received: only --model."
        )
    bad_records = BadRecords(max_bad_records)
    sources = open_source(SourceConfig(path=training, split=split), bad_records)
    examples = [source[number] for source in sources for number in range(len(source))]
    bad_records.report(len(examples))
    if not examples:
        raise InputError(f"The training data has no queries with positives. Received: {training!r}.")
    documents: list[Document] = (
        list(CorpusReader(corpus))
        if corpus is not None
        else list({d.id: d for source in sources for d in dataset_of_examples(source).corpus}.values())
    )
    with shown(quiet=quiet):
        mined = list(mine_negatives(examples, documents, _ranker(model, bm25, documents), settings))
    write_atomically(out, "".join(to_json(example) + "\n" for example in mined).encode())
    typer.echo(out)
    found = sum(
        len(after.negatives) - len(before.negatives) for before, after in zip(examples, mined, strict=True)
    )
    without = sum(not example.negatives for example in mined)
    typer.echo(f"{found:,} negatives for {len(mined):,} queries, {without:,} of which have none", err=True)
    next_command("xtr-tf train CONFIG.yaml, with this file in `data.train` and `data.hard_negatives` above 0")


def _window(ranks: str) -> tuple[int, int]:
    first, _, last = ranks.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        raise InputError(f"--ranks must be FIRST-LAST, such as 1-50. Received: {ranks!r}.")
    return int(first), int(last)


def _ranker(model: Path | None, analyser: str, documents: list[Document]) -> Rank:
    if model is None:
        from xtr_tf.evaluation.baselines import BM25
        from xtr_tf.lexical.terms import analyser_of

        with needs_extra("BM25", "eval"):
            return BM25(documents, analyser_of(analyser)).search
    from xtr_tf.evaluation.exported_model import ExportedModel

    exported = ExportedModel(model)
    return lambda queries, depth: exported.search("mine", queries, depth)
