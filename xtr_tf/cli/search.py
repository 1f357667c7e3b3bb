"""`xtr-tf search`: search an exported model, in this process and without Python TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xtr_tf.cli import options

if TYPE_CHECKING:
    from rich.console import Console

_EXPLAINED = 3

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A version's directory, or the base directory of several.")
]


def search(
    model: Model,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    top_k: Annotated[
        int | None, typer.Option(help="Documents to show; the model's default if not given.")
    ] = None,
    k_prime: options.AskedKPrime = None,
    leaves: Annotated[
        int | None, typer.Option(help="Leaves of the index to search; 0: its own default.")
    ] = None,
    imputation: Annotated[
        str | None, typer.Option(help="top_k_prime, zero, constant or none.", show_default=False)
    ] = None,
    constant: Annotated[float | None, typer.Option(help="Value of the imputation `constant`.")] = None,
    languages: Annotated[
        list[str] | None, typer.Option("--language", help="Only documents in this language; repeatable.")
    ] = None,
    rescore: options.AskedRescore = None,
    filter_: options.AskedFilter = None,
    min_score: options.AskedMinScore = None,
    alpha: options.AskedAlpha = None,
    fusion: options.AskedFusion = None,
    fields: options.ShowFields = False,
    token_weights: options.AskedTokenWeights = None,
    explain: Annotated[bool, typer.Option(help="Show which tokens matched in the best documents.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Search an exported model."""
    import json
    import time

    from rich.console import Console

    from xtr_tf.cli import rendering
    from xtr_tf.retriever.versions import latest_version
    from xtr_tf.runtime import SavedModelSession

    given = {
        "top_k": top_k,
        "k_prime": k_prime,
        "leaves": leaves,
        "imputation": imputation,
        "constant": constant,
        "rescore": rescore,
        "token_weights": token_weights,
        "filter": filter_,
        "min_score": min_score,
        "alpha": alpha,
        "fusion": fusion,
    }
    inputs: dict[str, Any] = {name: [value] for name, value in given.items() if value is not None}
    inputs |= {"query": [query], "languages": [",".join(languages or [])]}
    start = time.perf_counter()
    with SavedModelSession(latest_version(model)) as session:
        signature = "explain" if explain else "search"
        session.run(signature, inputs)
        ready = time.perf_counter()
        answer = session.run(signature, inputs)
        answered = time.perf_counter()
    if as_json:
        typer.echo(json.dumps(rendering.to_records(answer, 0), ensure_ascii=False, indent=1))
        return
    console = Console()
    console.print(rendering.ranking_table(answer, 0, fields))
    if explain:
        _print_explanations(console, answer)
    console.print(
        f"[dim]{len(rendering.found_places(answer, 0))} documents in {1000 * (answered - ready):.1f} ms, "
        f"after {ready - start:.1f} s to load and warm up[/]",
        highlight=False,
    )


def _print_explanations(console: Console, answer: dict[str, Any]) -> None:
    from rich.padding import Padding

    from xtr_tf.cli import rendering

    for place in rendering.found_places(answer, 0)[:_EXPLAINED]:
        console.print()
        console.print(f"[dim]{place + 1}[/]", rendering.document_name(answer, 0, place))
        console.print(Padding(rendering.query_alignment(answer, 0, place), (0, 0, 0, 2)))
        text = rendering.matched_text(answer, 0, place)
        if text:
            console.print(Padding(text, (1, 0, 0, 2)))
