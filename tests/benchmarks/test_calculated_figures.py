"""Figures in documents that follow from other figures, or from the shipped model, are calculated again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

NUMBER = r"(\d+(?:\.\d+)?)"
BENCHMARKS = "benchmarks/README.md"
BUILD = "BUILD.md"
INDEXING = "docs/how-to/index-a-corpus.md"
SIZE = "docs/how-to/size.md"
MODEL = "models/mxtr_tiny/README.md"
MILLI = 1e-3

# A document and a pattern for a figure in it; a document, a pattern for figures in it, and what they give.
CALCULATED: list[tuple[str, str, str, str, Callable[..., float]]] = [
    (
        SIZE,
        rf"punctuation removes {NUMBER}% of the",
        *(INDEXING, rf"\| punctuation \| {NUMBER}%", lambda left: 100 - left),
    ),
    (
        SIZE,
        rf"MS MARCO, (?:[^|]*\|){{5}} {NUMBER} \|",
        *(SIZE, rf"= {NUMBER} T / 3,600", lambda seconds: 600 * seconds / 3600),
    ),
    (
        SIZE,
        rf"MIRACL, (?:[^|]*\|){{5}} {NUMBER} \|",
        *(SIZE, rf"= {NUMBER} T / 3,600", lambda seconds: 15_000 * seconds / 3600),
    ),
    (
        BENCHMARKS,
        rf"nearest=[\d.]+ time_ratio={NUMBER}",
        *(BENCHMARKS, rf"from shards \| {NUMBER} s .* own \| {NUMBER} s", lambda ours, scann: ours / scann),
    ),
    (
        BENCHMARKS,
        rf"thread build in {NUMBER} s",
        BENCHMARKS,
        rf"build_s_per_m={NUMBER}",
        lambda time: 20 * time,
    ),
    (BENCHMARKS, rf"opened in {NUMBER} s", BENCHMARKS, rf"open_ms={NUMBER}", lambda time: time * MILLI),
    (
        BENCHMARKS,
        rf"opened in [\d.]+ s \| \| {NUMBER} s",
        *(BENCHMARKS, rf"first_query_ms={NUMBER}", lambda time: time * MILLI),
    ),
    (
        BENCHMARKS,
        rf"20,000 passages \| {NUMBER} s",
        *(BENCHMARKS, rf"docs_per_s={NUMBER}", lambda rate: 20_000 / rate),
    ),
]
# By the data sheets: the row of a TPU in the estimates, its peak, and its replicas.
TPUS = [("v4-8", 275e12, 4), ("v5e-16", 197e12, 16)]
TESTED_LANGUAGES = 12


def in_one_line(path: Path) -> str:
    return " ".join(path.read_text(encoding="utf-8").split())


def is_rounded(quoted: str, value: float) -> bool:
    unit = 10.0 ** -len(quoted.partition(".")[2])
    return abs(float(quoted) - value) <= unit * (0.5 + 1e-9)


@pytest.mark.parametrize(("document", "quoted", "source", "given", "calculate"), CALCULATED)
def test_a_figure_follows_from_others(
    document: str, quoted: str, source: str, given: str, calculate: Callable[..., float], repository: Path
) -> None:
    said = set(re.findall(quoted, in_one_line(repository / document)))
    assert len(said) == 1
    found = re.search(given, in_one_line(repository / source))
    assert found
    assert is_rounded(said.pop(), calculate(*map(float, found.groups())))


@pytest.mark.parametrize(("tpu", "peak", "replicas"), TPUS)
def test_estimates_for_tpus_follow_from_the_operations(
    tpu: str, peak: float, replicas: int, repository: Path
) -> None:
    text = (repository / BUILD).read_text(encoding="utf-8")
    (operations,) = re.findall(rf"^\| {replicas} \| (\S+) \|", text, re.MULTILINE)
    (cells,) = re.findall(rf"^\| {tpu} \|(.*)\|$", text, re.MULTILINE)
    chips, tera, at_peak, fast, slow, least, most = re.findall(NUMBER, re.sub("[0-9]{2}%", "", cells))
    assert (int(chips), float(tera) * 1e12) == (replicas, peak)
    seconds = float(operations) / peak
    assert is_rounded(at_peak, seconds / MILLI)
    assert is_rounded(fast, seconds / 0.5 / MILLI)
    assert is_rounded(slow, seconds / 0.3 / MILLI)
    assert is_rounded(least, 50_000 * seconds / 0.5 / 3600)
    assert is_rounded(most, 50_000 * seconds / 0.3 / 3600)


@pytest.fixture(scope="module")
def quality(repository: Path) -> dict[str, list[float]]:
    """nDCG@10 of the shipped model: f_XTR', f_ColBERT, BM25 over words and over n-grams, by set."""
    text = (repository / MODEL).read_text(encoding="utf-8").partition("## Quality")[2]
    rows = re.findall(rf"^\| (.+?) \| {NUMBER} \| {NUMBER} \| {NUMBER} \| {NUMBER} \|$", text, re.MULTILINE)
    return {name: [float(figure) for figure in figures] for name, *figures in rows}


def test_the_model_beats_bm25_in_as_many_languages_as_it_says(
    quality: dict[str, list[float]], repository: Path
) -> None:
    tested = list(quality.values())[:TESTED_LANGUAGES]
    words, ngrams = (sum(row[0] > row[column] for row in tested) for column in (2, 3))
    for name in ("README.md", MODEL, "CHANGELOG.md"):
        text = in_one_line(repository / name)
        assert re.findall(r"in (\d+) of 12 languages", text) == [str(words)], name
    in_words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")[ngrams]
    assert f"character n-grams in {in_words}." in in_one_line(repository / MODEL)
    assert f"character n-grams in {ngrams} |" in in_one_line(repository / "README.md")


def test_the_gap_to_bm25_is_that_of_the_table(quality: dict[str, list[float]], repository: Path) -> None:
    sets = [*list(quality)[:TESTED_LANGUAGES], "squad_dev_en", "scifact_en"]
    gaps = sorted(round(quality[name][3] - quality[name][0], 1) for name in sets)
    ((least, most),) = re.findall(rf"and {NUMBER} to {NUMBER} points worse", in_one_line(repository / MODEL))
    behind = [gap for gap in gaps if gap > 1]
    assert (behind[0], behind[-1]) == (float(least), float(most))


def test_what_lengths_gain_is_what_the_model_card_says(
    quality: dict[str, list[float]], repository: Path
) -> None:
    recipe = (repository / "benchmarks" / "mxtr" / "README.md").read_text(encoding="utf-8")
    table = recipe.partition("## Lengths")[2].partition("\n## ")[0]
    rows = re.findall(rf"^\| (.+?) \| {NUMBER} \| {NUMBER} \| {NUMBER} \|$", table, re.MULTILINE)
    languages = list(quality.values())[:TESTED_LANGUAGES]
    own = {f"{name.partition(' ')[0]}_en": figures for name, *figures in rows}
    for column, stored in ((1, 0), (2, 3)):
        mean = sum(figures[stored] for figures in languages) / TESTED_LANGUAGES
        assert is_rounded(own["mean_en"][column], mean)
        for name, figures in quality.items():
            if (key := name.partition(" ")[0]) in own:
                assert float(own[key][column]) == figures[stored], name
    assert len(rows) == 6


def test_bm25_is_the_same_next_to_the_untrained_encoder(
    quality: dict[str, list[float]], repository: Path
) -> None:
    recipe = (repository / "benchmarks" / "mxtr" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| BM25, character n-grams((?: \| {NUMBER}){{12}}) \|$", recipe, re.MULTILINE)
    (row,) = rows
    assert [float(own) for own in re.findall(NUMBER, row[0])] == [
        figures[3] for figures in list(quality.values())[:TESTED_LANGUAGES]
    ]


def test_the_model_card_describes_the_shipped_files(repository: Path) -> None:
    folder = repository / "models" / "mxtr_tiny"
    encoder = json.loads((folder / "encoder.json").read_text())["encoder"]
    million_bytes = (folder / "weights.safetensors").stat().st_size / 1e6
    text = in_one_line(repository / MODEL)
    for part in (
        "| {num_layers} blocks, width {model_dim}, {num_heads} heads of {head_dim},",
        "ReLU of {feed_forward_dim},",
        "embeddings of {embedding_dim}, vectors of {projection_dim};",
        "every single character: {vocabulary_size:,} pieces",
    ):
        assert part.format_map(encoder) in text
    assert f"{million_bytes / 2:.1f} million weights as float16, {million_bytes:.0f} MB" in text
