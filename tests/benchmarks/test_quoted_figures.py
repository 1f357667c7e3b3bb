"""Figures in documents equal those in the stored output of benchmarks, benchmarks/README.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NUMBER = r"(\d+(?:\.\d+)?)"
# For a million tokens: time at concurrency 1, queries per second at 16.
ONE = rf"concurrency 1: [^|]*\|[^|]*\| {NUMBER} ms"
SIXTEEN = rf"concurrency 16 \|[^|]*\| \d+ ms, \d+ ms, {NUMBER} \|"
# Between the name of an engine and its bytes per token: setting, two times, two overlaps.
COLUMNS = r"[^|]*\|" * 5
# The peak memory of our build of 5 million tokens.
SHARDS = rf"from shards \| \d+ s \| {NUMBER} GB"
# A document, a pattern for a figure in it, and a pattern for the same figure in the stored output.
QUOTED = [
    ("README.md", rf"{NUMBER} times FAISS", rf"faiss_ratio_1t={NUMBER}"),
    ("README.md", rf"{NUMBER} to 7 times xtr-warp-rs", rf"warp_ratio={NUMBER}"),
    ("README.md", rf"{NUMBER} times fast-plaid and more", rf"plaid_ratio={NUMBER}"),
    ("README.md", rf"{NUMBER} times Google's notebook", rf"notebook_ratio={NUMBER}"),
    ("README.md", rf"{NUMBER} bytes per token", rf"overlap=[\d.]+ bytes_per_token={NUMBER}"),
    ("README.md", rf"built in {NUMBER} GB", SHARDS),
    ("README.md", rf"ScaNN's own builder takes {NUMBER}", rf"ScaNN's own \| \d+ s \| {NUMBER} GB"),
    ("README.md", rf"\| {NUMBER} ms per query", ONE),
    ("README.md", rf"{NUMBER} queries per second at", SIXTEEN),
    ("README.md", rf"\| {NUMBER} to [\d.]+ times torch", rf"small_ratio={NUMBER}"),
    ("README.md", rf"to {NUMBER} times torch", rf"tiny_ratio={NUMBER}"),
    ("README.md", rf"{NUMBER} of 24 checks pass", rf"claims passed={NUMBER} of=24"),
    ("README.md", rf"{NUMBER} are undecided", rf"claims passed=3 of=24 undecided={NUMBER}"),
    ("README.md", rf"All {NUMBER} of the appendix", rf"claims-grid passed={NUMBER} of=4"),
    ("docs/how-to/size.md", rf"`scann` \| {NUMBER} MB", rf"overlap=[\d.]+ bytes_per_token={NUMBER}"),
    ("docs/how-to/size.md", rf"`scann` \| \d+ MB \| {NUMBER} MB", rf"per million tokens: {NUMBER} MB"),
    ("docs/how-to/size.md", rf"with reordering \| \d+ MB \| {NUMBER} MB", rf"\(`scann`\), {NUMBER} MB"),
    ("docs/how-to/size.md", rf"`core` \(int8\) \| \d+ MB \| {NUMBER} MB", rf"with reordering\), {NUMBER} MB"),
    ("docs/how-to/size.md", rf"one thread \| {NUMBER} to", rf"k' 1,000, 8 leaves \| {NUMBER} ms"),
    ("docs/how-to/size.md", rf"one thread \| [\d.]+ to {NUMBER} ms", rf"k' 1,000, 160 leaves \| {NUMBER} ms"),
    (
        "docs/how-to/size.md",
        rf"two cores \| {NUMBER} ms",
        ONE,
    ),
    (
        "docs/how-to/size.md",
        rf"\| {NUMBER} queries per second",
        SIXTEEN,
    ),
    ("docs/how-to/size.md", rf"answer comes about {NUMBER} seconds", rf"start_s={NUMBER}"),
    ("docs/how-to/size.md", rf"with reordering \| {NUMBER} MB", rf"int8 reordering \|{COLUMNS} {NUMBER} \|"),
    ("docs/how-to/size.md", rf"`core` \(int8\) \| {NUMBER} MB", rf"`core`, int8 \|{COLUMNS} {NUMBER} \|"),
    ("docs/how-to/size.md", rf"= {NUMBER} T / 3,600", rf"cpu_s_per_m_20m={NUMBER}"),
    ("docs/how-to/troubleshoot.md", rf"takes about {NUMBER} GB for 5 million", SHARDS),
    (
        "docs/explanation/comparison.md",
        rf"\| {NUMBER} \(`scann`\)",
        rf"overlap=[\d.]+ bytes_per_token={NUMBER}",
    ),
    (
        "docs/explanation/comparison.md",
        rf"{NUMBER}, measured here",
        rf"xtr-warp-rs 2.1 \|{COLUMNS} {NUMBER} \|",
    ),
    ("BUILD.md", rf"{NUMBER} times torch's updates per second", rf"tiny_ratio={NUMBER}"),
    ("BUILD.md", rf"by round\), {NUMBER} times in mT5-small's shape \(", rf"small_ratio={NUMBER}"),
    ("BUILD.md", rf"whole process is {NUMBER} times", rf"memory_ratio={NUMBER}"),
    ("BUILD.md", rf"and {NUMBER} times in mT5-small's shape, where", rf"packages \({NUMBER} in mT5-small's"),
    ("BUILD.md", rf"\| 8 \| {NUMBER}e13", rf"flops={NUMBER}e\+13"),
    ("BUILD.md", rf"\| 8 \| \S+ \| {NUMBER}e12", rf"bytes={NUMBER}e\+12"),
    ("BUILD.md", rf"\| 8 \| \S+ \| \S+ \| {NUMBER} \|", rf"blocks={NUMBER}"),
    ("benchmarks/README.md", rf"at the end was {NUMBER} times", rf"rss_ratio={NUMBER}"),
    ("benchmarks/README.md", rf"took 60 to {NUMBER} ms", rf"swap_max_ms={NUMBER}"),
    ("benchmarks/README.md", rf"answer comes {NUMBER} s after", rf"start_s={NUMBER}"),
    ("benchmarks/README.md", rf"`xtr-tf query` takes {NUMBER} s", rf"query_cli_s={NUMBER}"),
    ("benchmarks/README.md", rf"an opened one takes {NUMBER} ms", rf" query_ms={NUMBER}"),
    ("benchmarks/README.md", r"over none at concurrency 16 \| (\.\d+)", rf"batching_gain={NUMBER}"),
    ("docs/explanation/the-index.md", rf"takes {NUMBER} bytes", rf"overlap=[\d.]+ bytes_per_token={NUMBER}"),
    ("docs/explanation/the-index.md", rf"in memory: {NUMBER} GB", rf"ScaNN's own \| \d+ s \| {NUMBER} GB"),
    ("docs/explanation/the-index.md", rf"to ScaNN: {NUMBER} GB", SHARDS),
]


@pytest.mark.parametrize(("document", "quoted", "stored"), QUOTED)
def test_a_figure_is_the_stored_one_rounded(
    document: str, quoted: str, stored: str, repository: Path
) -> None:
    said, measured = (
        re.findall(pattern, " ".join((repository / name).read_text(encoding="utf-8").split()))
        for name, pattern in ((document, quoted), ("benchmarks/README.md", stored))
    )
    assert len(set(said)) == 1
    assert measured
    unit = 10.0 ** -len(said[0].partition(".")[2])
    # A figure that is halfway may be rounded either way.
    assert abs(float(said[0]) - float(measured[0])) <= unit * (0.5 + 1e-9)
