"""Which files an input is read from, their fingerprint, and which judged documents were deleted."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tfx_pipeline.data.sources import fingerprint, matching_files, missing_documents, source_files


def beir(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": name, "text": f"text of {name}", "language": "en"} for name in ("a", "b")]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "one"}\n{"_id": "q2", "text": "two"}\n')
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tc\t1\nq2\td\t1\n")
    return folder


def test_the_latest_span_and_version_are_used(tmp_path: Path) -> None:
    for name in ("span-2/v-1/a.jsonl", "span-10/v-3/a.jsonl", "span-10/v-20/a.jsonl", "span-10/v-20/b.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = matching_files(tmp_path, "span-{SPAN}/v-{VERSION}/*.jsonl")
    assert [str(path.relative_to(tmp_path)) for path in found] == [
        "span-10/v-20/a.jsonl",
        "span-10/v-20/b.jsonl",
    ]
    assert len(matching_files(tmp_path, "span-*/v-*/a.jsonl")) == 3
    assert matching_files(tmp_path, "span-{SPAN}/*.tsv") == []


def test_judgements_come_with_their_queries_and_documents(tmp_path: Path) -> None:
    beir(tmp_path)
    files = source_files(tmp_path, ["qrels/dev.tsv"])
    assert sorted(own.file for own in files) == ["corpus.jsonl", "qrels/dev.tsv", "queries.jsonl"]
    assert all(own.bytes == (tmp_path / own.file).stat().st_size for own in files)
    before = fingerprint(files)
    os.utime(tmp_path / "queries.jsonl", (1, 1))
    assert fingerprint(source_files(tmp_path, ["qrels/dev.tsv"])) == before
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "changed"}\n')
    assert fingerprint(source_files(tmp_path, ["qrels/dev.tsv"])) != before


def test_judged_documents_that_were_deleted_are_found(tmp_path: Path) -> None:
    missing = missing_documents(beir(tmp_path), "qrels/dev.tsv")
    assert (missing.count, missing.judgements, missing.example) == (2, 3, "'q1' with 'c'")
