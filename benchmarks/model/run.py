"""How good an encoder is on every test set, by exact search at k' 1,000, compared with BM25 over n-grams.

Query tokens are weighted by IDF, and vectors have lengths by the size of their document and by repetition,
unless `--token-weights none`, `--length-penalty 0` and `--repetition-bonus 0` are given.

    make bench-model                                  # models/mxtr_tiny
    make bench-model ARGS="ENCODER --queries 300"     # another encoder, at most 300 queries of each set

Questions in one language for English passages are made from xquad_r, whose questions are translations of each
other: the answer to `en-X` also answers `de-X`. Sets on which choices were made are reported separately. Ends
with one line,

    RESULT bench-model languages_at_bm25=… of=12 mean_delta=… english_delta=… crosslingual_recall10=…

where deltas are points of nDCG@10 (of the 12 languages, and of scifact and squad_dev) above BM25's n-grams.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xtr_tf.collections.loading import load_datasets
from xtr_tf.config.retrieval import TOKEN_WEIGHTS
from xtr_tf.evaluation.evaluate import evaluate_model
from xtr_tf.evaluation.evaluator import EvaluationSettings
from xtr_tf.evaluation.results import file_name

sys.path.append(str(Path(__file__).resolve().parents[1]))
from exported_model import LENGTHS

SETS, OUT = Path(".bench/study/data"), Path(".bench/model")
LANGUAGES = ("ar", "de", "el", "en", "es", "hi", "ru", "th", "tr", "vi", "zh")
ENGLISH, DEVELOPMENT = ("scifact_en", "squad_dev_en"), ("fairytaleqa_en", "cranfield_en", "cacm_en")
K_PRIME = 1_000


class Figures(NamedTuple):
    """The figures of one set, all in percent.

    Attributes:
        ndcg: nDCG@10 of the model.
        colbert: nDCG@10 under exact f_ColBERT.
        bm25: nDCG@10 of BM25 over character n-grams.
        found: Queries with an answer among the first ten: Recall@10 where a query has one answer.
        bm25_found: The same for BM25.
    """

    ndcg: float
    colbert: float
    bm25: float
    found: float
    bm25_found: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?", default="models/mxtr_tiny", type=Path)
    parser.add_argument("--queries", type=int, default=0, help="maximum number per set; 0 for all")
    parser.add_argument("--token-weights", default="idf", choices=TOKEN_WEIGHTS)
    for name, value in LENGTHS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=value)
    parser.add_argument("--data", default="../shared/data", type=Path, help="where unpack.sh is")
    arguments = parser.parse_args()
    if not (SETS / "test").is_dir():
        subprocess.run([arguments.data / "unpack.sh", SETS], check=True)
    tests = SETS / "test"
    cross = [
        cross_lingual(tests / "xquad_r", language, OUT / "sets") for language in LANGUAGES if language != "en"
    ]
    folders = [tests / "xquad_r", *(tests / name for name in ("jaquad_ja", *ENGLISH, *DEVELOPMENT)), *cross]
    settings = EvaluationSettings(
        k_prime=K_PRIME,
        token_weights=arguments.token_weights,
        length_penalty=arguments.length_penalty,
        repetition_bonus=arguments.repetition_bonus,
        max_queries=arguments.queries,
        analysis_queries=0,
        exact_queries=0,
        examples=0,
    )
    report = OUT / "report"
    content = evaluate_model(arguments.encoder, load_datasets(folders), report, settings, progress=print)
    figures = {entry["name"]: read_figures(report, entry["name"]) for entry in content["datasets"]}
    print(table(figures))
    machine = content["machine"]
    print(f"{machine['processor']}, {machine['cores']} cores, {content['seconds']:.0f} s, ", end="")
    print(
        f"{arguments.queries or 'all'} queries of each set, token weights {arguments.token_weights}, ", end=""
    )
    print(f"length penalty {arguments.length_penalty:g}, repetition bonus {arguments.repetition_bonus:g}")
    print(result(figures))


def cross_lingual(xquad: Path, language: str, out: Path) -> Path:
    """Writes the questions of a language with the English passages, as a BEIR folder."""
    folder = out / f"{language}-en"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "qrels").mkdir(parents=True)
    shutil.copy(xquad / "en" / "corpus.jsonl", folder / "corpus.jsonl")
    shutil.copy(xquad / language / "queries.jsonl", folder / "queries.jsonl")
    asked = [json.loads(line)["_id"] for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    header, *judged = (xquad / "en" / "qrels" / "test.tsv").read_text("utf-8").splitlines()
    answers: dict[str, list[str]] = {}
    for line in judged:
        query, rest = line.split("\t", 1)
        answers.setdefault(query.removeprefix("en-"), []).append(rest)
    lines = [f"{query}\t{rest}" for query in asked for rest in answers[query.removeprefix(f"{language}-")]]
    (folder / "qrels" / "test.tsv").write_text("\n".join([header, *lines]) + "\n", "utf-8")
    return folder


def read_figures(report: Path, name: str) -> Figures:
    """Reads the values of every query that an evaluation wrote."""
    path = report / "queries" / f"{file_name(name)}.json"
    systems: Mapping[str, Any] = json.loads(path.read_text("utf-8"))["values"]

    def mean(system: str, metric: str) -> float:
        return 100 * statistics.fmean(systems[system][metric])

    def found(system: str) -> float:
        return 100 * statistics.fmean(value > 0 for value in systems[system]["MRR@10"])

    return Figures(
        mean("xtr", "nDCG@10"),
        mean("colbert", "nDCG@10"),
        mean("bm25_ngrams", "nDCG@10"),
        found("xtr"),
        found("bm25_ngrams"),
    )


def table(figures: Mapping[str, Figures]) -> str:
    """A Markdown table of nDCG@10, or of Recall@10 for questions in another language."""
    lines = ["| | f_XTR' | exact f_ColBERT | BM25, n-grams |", "|---|---:|---:|---:|"]
    for name, own in figures.items():
        if _is_cross(name):
            lines.append(f"| {name}, Recall@10 | {own.found:.1f} | | {own.bm25_found:.1f} |")
        else:
            kind = " (development)" if name in DEVELOPMENT else ""
            lines.append(f"| {name}{kind} | {own.ndcg:.1f} | {own.colbert:.1f} | {own.bm25:.1f} |")
    return "\n".join(lines)


def result(figures: Mapping[str, Figures]) -> str:
    """Returns the RESULT line."""
    own = [figures[name] for name in figures if name.startswith("xquad_r") or name == "jaquad_ja"]
    english = [figures[name] for name in ENGLISH]
    recall = statistics.fmean(own.found for name, own in figures.items() if _is_cross(name)) / 100
    return (
        f"RESULT bench-model languages_at_bm25={sum(row.ndcg >= row.bm25 for row in own)} of={len(own)} "
        f"mean_delta={_delta(own):.1f} english_delta={_delta(english):.1f} crosslingual_recall10={recall:.3f}"
    )


def _delta(rows: Sequence[Figures]) -> float:
    return statistics.fmean(row.ndcg - row.bm25 for row in rows)


def _is_cross(name: str) -> bool:
    return name.endswith("-en")


if __name__ == "__main__":
    main()
