"""The first day of a user with their own data: `make first-day`.

From an empty folder to versions in production: their own pipeline, updates, a rollback, interruptions, bad
input and full disks. Every step checks what the user would see. The last line is
`RESULT first-day steps=… failed=… minutes=…`.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from own_data import documents, harmless, pairs, write_rows

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = str(REPOSITORY / ".venv" / "bin" / "xtr-tf")
ENCODER = REPOSITORY / "models" / "mxtr_tiny"
FOLDER = REPOSITORY / "out" / "first-day"
CONFIG = FOLDER / "mine" / "pipeline.yaml"
MODELS = FOLDER / "mine" / "models"
SMALL = [
    *("--set", "run.training.steps=20", "--set", "run.training.checkpoint_every=10"),
    *("--set", "run.training.batch_size=16", "--set", "index.kind=exact", "--set", "quality.exact_queries=0"),
]

Steps = list[tuple[str, Callable[[], None]]]
steps: Steps = []


def step(title: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Makes a function a step of the journey; steps run in the order of this file."""

    def add(function: Callable[[], None]) -> Callable[[], None]:
        steps.append((title, function))
        return function

    return add


def run(*words: object, code: int = 0) -> str:
    """Runs a command and returns its output; an unexpected exit code fails the step."""
    ended = subprocess.run(
        [COMMAND, *map(str, words)], capture_output=True, text=True, check=False, cwd=FOLDER
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == code, f"exit {ended.returncode} instead of {code}:\n{said[-3000:]}"
    assert "Traceback" not in said, said[-3000:]
    assert said.count("Received:") <= 1, said
    return said


def has(said: str, *wanted: str) -> None:
    """Asserts that the output contains everything expected."""
    for words in wanted:
        assert words in said, f"{words!r} is not in:\n{said[-3000:]}"


def newest() -> int:
    """The version in production."""
    return max(int(path.name) for path in MODELS.iterdir() if path.name.isdecimal())


def pipeline(dag: str = "full", code: int = 0, *more: str) -> str:
    """Runs the pipeline and returns its output."""
    return run("pipeline", "run", "--config", CONFIG, "--dag", dag, *SMALL, *more, code=code)


@step("start a pipeline for one's own data")
def _() -> None:
    write_rows(FOLDER / "corpus.jsonl", documents())
    write_rows(FOLDER / "pairs.jsonl", pairs())
    said = run(
        *(
            "pipeline",
            "init",
            "mine",
            "--corpus",
            "corpus.jsonl",
            "--training",
            "pairs.jsonl",
            "--encoder",
            ENCODER,
        )
    )
    has(said, "languages of the corpus: it, ko, pl, tr", "next: xtr-tf pipeline run --config")
    has(run("pipeline", "check", "--config", CONFIG), "ok: mine can run; languages: it, ko, pl, tr")


@step("mistakes in the configuration are found before anything runs")
def _() -> None:
    started = time.monotonic()
    words = ("pipeline", "run", "--config", CONFIG, "--set")
    has(run(*words, "schema=x", code=1), "did you mean `training_data.schema` or `corpus.schema`?")
    said = run(*words, 'corpus.schema=""', code=1)
    has(said, "languages that the schema does not list", "it (25%)", "xtr-tf pipeline init")
    has(run(*words, "corpus.files=none.jsonl", code=1), "`corpus.files` matches no file in `corpus.folder`")
    assert time.monotonic() - started < 60


@step("data, model, index, a version in production")
def _() -> None:
    said = pipeline()
    has(said, "✓ Trainer", "pushed", "report")
    has(run("pipeline", "status", "--config", CONFIG), f"in production: {MODELS / str(newest())}")


@step("lineage names files, sizes, hashes and records")
def _() -> None:
    said = run("pipeline", "lineage", MODELS / str(newest()), "--config", CONFIG)
    has(said, "CorpusGen: corpus 96 records", "corpus.jsonl, ", "train.jsonl, ")
    assert len(set(re.findall(r"SHA-256 ([0-9a-f]{64})", said))) >= 4


@step("nothing changed, nothing runs")
def _() -> None:
    started = time.monotonic()
    for dag in ("full", "refresh"):
        said = pipeline(dag)
        has(said, f"Nothing changed since version {newest()} was made")
        assert said.count("\n") == 1, said
    assert time.monotonic() - started < 40


@step("the report shows every language with BM25 and hybrid")
def _() -> None:
    (report,) = (FOLDER / "mine" / "runs" / "RetrievalEvaluator" / "evaluation").glob("*/report.html")
    page = report.read_text(encoding="utf-8").partition("<h3>By language</h3>")[2].partition("</table>")[0]
    has(page, "Italian", "Korean", "Polish", "Turkish", "BM25", "XTR + BM25")


@step("a document is deleted, a fifth more arrive: a refresh pushes them")
def _() -> None:
    before = newest()
    judged = json.loads((FOLDER / "mine" / "data" / "eval.jsonl").read_text().splitlines()[0])
    gone = judged["positives"][0]["id"]
    kept = [row for row in documents() if row["_id"] != gone]
    write_rows(FOLDER / "corpus.jsonl", [*kept, *harmless(20)])
    said = pipeline("refresh")
    has(said, "judgements were left out: their documents are not in the corpus")
    assert "Trainer" not in said
    assert newest() > before


@step("too many lost documents are refused, and the message names the setting")
def _() -> None:
    lines = (FOLDER / "mine" / "data" / "eval.jsonl").read_text().splitlines()
    judged = {json.loads(line)["positives"][0]["id"] for line in lines}
    rows = [json.loads(line) for line in (FOLDER / "corpus.jsonl").read_text().splitlines()]
    write_rows(FOLDER / "corpus.jsonl", [row for row in rows if row["_id"] not in sorted(judged)[:5]])
    try:
        has(pipeline("refresh", 1), "more than `gate.max_missing_positives`, 10.0%", "(log: ")
    finally:
        write_rows(FOLDER / "corpus.jsonl", rows)


@step("a rollback sticks")
def _() -> None:
    rejected = newest()
    said = run("pipeline", "rollback", "--because", "it found nothing.", "--config", CONFIG)
    has(said, f"withdrawn: version {rejected}", f"in production: version {newest()}")
    assert newest() < rejected
    status = run("pipeline", "status", "--config", CONFIG)
    has(
        status,
        f"in production: {MODELS / str(newest())}",
        f"withdrawn: version {rejected}, it found nothing.",
    )
    has(pipeline("refresh"), f"Nothing changed since version {rejected} was made, which was withdrawn")
    has(run("pipeline", "lineage", MODELS / str(rejected), "--config", CONFIG), "it found nothing.")


@step("an interrupted run says where it stands, and leaves no process behind")
def _() -> None:
    words = [COMMAND, "pipeline", "run", "--config", str(CONFIG), *SMALL, "--set", "run.training.steps=2000"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=FOLDER)
    assert process.stdout is not None
    for line in process.stdout:
        if "✓ Transform" in line:
            break
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    said = process.stdout.read()
    assert process.wait() in (130, 143), said
    has(said, "the same command goes on from there")
    assert not children_of(process.pid)


def children_of(parent: int) -> list[str]:
    """The processes that a process has left behind."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if f"\nPPid:\t{parent}\n" in status.read_text():
                found.append(status.parent.name)
        except OSError:
            continue
    return found


@step("encode counts what it skips, and --strict refuses")
def _() -> None:
    bad = write_rows(FOLDER / "bad.jsonl", [*documents()[:8], {"_id": "empty", "text": ""}])
    said = run("encode", bad, "--model", ENCODER, "--out", "vectors-bad")
    has(said, "1 records were skipped in all", "next: xtr-tf index")
    has(run("encode", bad, "--model", ENCODER, "--out", "strict", "--strict", code=1), "bad.jsonl:9")
    assert not (FOLDER / "strict").exists()
    run("encode", "corpus.jsonl", "--model", ENCODER, "--out", "vectors")
    said = run("encode", bad, "--model", ENCODER, "--out", "vectors", code=1)
    has(said, "of another corpus, encoder or settings")


@step("index sweeps leftovers, and says what an index is not")
def _() -> None:
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    left = FOLDER / f".index.{int(dead.stdout)}-01234567.partial"
    left.mkdir()
    has(run("index", "vectors", "--out", "index", "--kind", "core"), "core index of", "next: xtr-tf export")
    assert not left.exists()
    said = run("index", "index", "--out", "index-2", code=1)
    has(said, "A directory of token vectors is needed", "a token index")


@step("export on a full disk is one sentence; with space it is a version")
def _() -> None:
    words = ("export", "vectors", "--model", ENCODER, "--index", "index", "--out")
    with small_disk() as disk:
        if disk is not None:
            has(run(*words, disk / "models", code=1), "The disk is full", "are free", str(disk))
    has(run(*words, "exported"), "published", "answers checked", "next: xtr-tf serve")
    has(run("verify", "exported"), "ok answers:")


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """A file system of a few megabytes, or None if none may be mounted."""
    place = FOLDER / "disk"
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


@step("training data that teach nothing are refused; development sets may be JSONL")
def _() -> None:
    write_rows(FOLDER / "few.jsonl", [pairs()[0], {"query": ""}, {"text": "no query"}])
    write_rows(FOLDER / "train.jsonl", pairs()[:64])
    write_rows(FOLDER / "dev.jsonl", pairs()[-8:])
    config = FOLDER / "train.yaml"

    def configure(train: str, dev: str) -> None:
        config.write_text(
            f"data: {{train: [{{path: {train}}}], dev: [{{path: {dev}}}]}}\n"
            f"training: {{initial_encoder: {ENCODER}, output: trained, steps: 4, batch_size: 32}}\n"
        )

    configure("train.jsonl", "nowhere.jsonl")
    has(run("train", config, code=1), "`data.dev[0]`: A data set does not exist")
    configure("few.jsonl", "dev.jsonl")
    has(run("train", config, code=1), "1 usable examples, batch_size 32")
    shutil.rmtree(FOLDER / "trained", ignore_errors=True)
    configure("train.jsonl", "dev.jsonl")
    has(run("train", config), "dev  ", "MRR@10", "next: xtr-tf encode")


@step("the version in production answers")
def _() -> None:
    question = pairs()[0]
    said = run("search", MODELS, question["query"], "--json", "--top-k", "20")
    assert question["positives"][0]["id"] in said, said


def main() -> None:
    """Runs all steps; a step that fails does not stop the others."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    began = time.monotonic()
    failed = 0
    for number, (title, function) in enumerate(steps, 1):
        started = time.monotonic()
        try:
            function()
            verdict = "ok"
        except Exception:
            failed += 1
            verdict = "FAILED"
            traceback.print_exc()
        print(f"{number:2} {verdict:6} {title} ({time.monotonic() - started:.0f} s)", flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"RESULT first-day steps={len(steps)} failed={failed} minutes={minutes:.1f}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
