"""Adds a sixth language to a pipeline of five: documents, then queries, then a vocabulary that covers it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_atlas import small_config, write_jsonl

from tfx_pipeline.cli_records import status
from tfx_pipeline.config import QualitySettings
from tfx_pipeline.data.languages import LanguagePart, remarks, unspelt_share
from tfx_pipeline.preflight import check, metadata_file
from tfx_pipeline.runners.local import Outcome, run_pipeline
from tfx_pipeline.withdrawal import newest_present, roll_back
from xtr_tf.errors import InputError
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import TOKENIZER_FILE, load_encoder, save_encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.model.vocabulary import SentencePieceModel, trim_vocabulary

FIVE, SIXTH = ("de", "en", "es", "fr", "sw"), "ru"
# Far below what the languages that the encoder can spell have, and far above the one that it cannot.
FLOOR = 0.5
STEPS = {"steps": 3, "batch_size": 8, "checkpoint_every": 3, "log_every": 1}
SCHEMAS = Path(__file__).parents[2] / "tfx_pipeline" / "schemas"


class Atlas:
    """The example's documents and questions, in the languages that have arrived so far.

    Args:
        source: The example's folder.
        folder: Where spans, schemas and encoders are written.
        encoder: One of all languages, whose vocabulary is trimmed.
    """

    def __init__(self, source: Path, folder: Path, encoder: Path) -> None:
        self.folder = folder
        self._documents = _read(source / "corpus.jsonl")
        self._questions = {row["_id"]: row for row in _read(source / "queries.jsonl")}
        self._judgements = {
            split: (source / "qrels" / f"{split}.tsv").read_text().splitlines() for split in ("train", "dev")
        }
        self._encoder = encoder
        self._span = 0

    def arrive(self, documents: tuple[str, ...], questions: tuple[str, ...], *new: dict[str, str]) -> None:
        """Writes the next span: documents in some languages and new ones, questions in some of them."""
        self._span += 1
        span = self.folder / "data" / f"span-{self._span}"
        (span / "qrels").mkdir(parents=True)
        known = [row for row in self._documents if row["language"] in documents]
        write_jsonl(span / "corpus.jsonl", [*known, *new])
        asked = {key: row for key, row in self._questions.items() if row["language"] in questions}
        write_jsonl(span / "queries.jsonl", list(asked.values()))
        for split in ("train", "dev"):
            header, *lines = self._judgements[split]
            kept = [line for line in lines if line.split("\t")[0] in asked]
            (span / "qrels" / f"{split}.tsv").write_text("\n".join([header, *kept]) + "\n")

    def list_languages(self, kind: str, languages: tuple[str, ...]) -> Path:
        """Edits a schema's languages, as a person would."""
        file = self.folder / "schemas" / kind / "schema.pbtxt"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = (SCHEMAS / kind / "schema.pbtxt").read_text()
        domain = "".join(f'  value: "{language}"\n' for language in languages)
        file.write_text(
            re.sub(r'(string_domain \{\n  name: "language"\n)(  value: .*\n)+', rf"\1{domain}", text)
        )
        return file.parent

    def trim(self, languages: tuple[str, ...]) -> Path:
        """Writes the encoder with the pieces that some languages need, as `--keep-pieces-of` does."""
        encoder, tokenizer = load_encoder(self._encoder)
        rows = [row for row in (*self._documents, *self._questions.values()) if row["language"] in languages]
        texts = (f"{row.get('title', '')} {row['text']}" for row in rows)
        vocabulary = SentencePieceModel(tokenizer.model_bytes, str(self._encoder))
        trimmed = trim_vocabulary(vocabulary, texts, lowercase=True)
        weights = encoder.get_canonical_weights()
        weights["token_embedder/embedding"] = weights["token_embedder/embedding"][trimmed.rows]
        small = Encoder(dataclasses.replace(encoder.config, vocabulary_size=len(trimmed.rows)), seed=None)
        small.set_canonical_weights(weights)
        folder = self.folder / "-".join(languages)
        save_encoder(folder, small, Tokenizer(tokenizer.config, trimmed.model))
        return folder

    def texts(self, language: str) -> list[str]:
        return [row["text"] for row in self._documents if row["language"] == language]


@pytest.fixture
def atlas(repository: Path, tmp_path: Path) -> Atlas:
    return Atlas(repository / "examples" / "atlas", tmp_path, repository / "models" / "mxtr_tiny")


def test_a_language_that_a_trimmed_vocabulary_cannot_spell_is_reported(atlas: Atlas) -> None:
    vocabulary = SentencePieceModel.read(atlas.trim(FIVE) / TOKENIZER_FILE)
    shares = {
        language: unspelt_share(atlas.texts(language), vocabulary, lowercase=True)
        for language in (*FIVE, SIXTH)
    }
    assert max(shares[language] for language in FIVE) < 0.01
    assert shares[SIXTH] > 0.5
    told = list(remarks({SIXTH: LanguagePart(26)}, FIVE, shares))
    assert told[0] == "ru was not measured: the corpus has 26 documents in it, and no judged query."
    assert re.fullmatch(r"\d\d% of the tokens in ru are bytes or unknown: .*run the full pipeline\.", told[1])
    assert len(told) == 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_sixth_language_is_added_and_rolled_back(atlas: Atlas, capsys: pytest.CaptureFixture[str]) -> None:
    config = small_config(
        atlas.folder / "data",
        atlas.folder / "root",
        vocabulary=Path(),
        run={"training": STEPS | {"initial_encoder": str(atlas.trim(FIVE))}},
        index__kind="exact",
        quality__min_per_language=FLOOR,
        quality__max_average_drop=QualitySettings.max_average_drop,
        quality__max_language_drop=QualitySettings.max_language_drop,
        training_data__schema=str(atlas.list_languages("training", FIVE)),
        corpus__schema=str(atlas.list_languages("corpus", FIVE)),
    )

    # Five languages in production, each held to the floor, and none may fall below what it was.
    atlas.arrive(documents=FIVE, questions=FIVE)
    first = run_pipeline(config)
    assert first.pushed
    assert figures(first).keys() == set(FIVE)

    # Documents in a sixth: nothing runs before a person has allowed it.
    atlas.arrive(documents=(*FIVE, SIXTH), questions=FIVE)
    with pytest.raises(InputError, match=r"does not list.*Received: ru \(\d+%\)"):
        check(config, "refresh")
    atlas.list_languages("corpus", (*FIVE, SIXTH))
    check(config, "refresh")
    with pytest.raises(InputError, match=r"component DataGate failed.*`ru` drifted from 0\.0% to"):
        run_pipeline(config, "refresh")
    gate = dataclasses.replace(config.gate, corpus_drift=0.3, training_drift=0.3)
    grown = dataclasses.replace(config, gate=gate)
    second = run_pipeline(grown, "refresh")
    assert second.pushed
    assert figures(second).keys() == set(FIVE)
    assert any(reason.startswith("ru was not measured") for reason in second.reasons)
    assert any("tokens in ru are bytes or unknown" in reason for reason in second.reasons)

    # Questions in it: what the vocabulary of five cannot spell misses the floor, and production stays.
    atlas.arrive(documents=(*FIVE, SIXTH), questions=(*FIVE, SIXTH))
    atlas.list_languages("training", (*FIVE, SIXTH))
    refused = run_pipeline(grown, "refresh")
    assert not refused.pushed
    (reason,) = [reason for reason in refused.reasons if "below the minimum" in reason]
    assert "in ru is" in reason
    assert figures(refused).keys() == {*FIVE, SIXTH}
    assert newest_present(Path(config.serving_folder)) == int(Path(second.pushed).name)

    # A full run with a vocabulary of six.
    training = dataclasses.replace(grown.run.training, initial_encoder=str(atlas.trim((*FIVE, SIXTH))))
    whole = dataclasses.replace(grown, run=dataclasses.replace(grown.run, training=training))
    third = run_pipeline(whole)
    assert third.pushed, third.reasons
    assert not any("bytes or unknown" in reason for reason in third.reasons)
    assert figures(third)[SIXTH] > figures(refused)[SIXTH]
    report = json.loads(Path(third.report).with_name("report.json").read_text())
    assert {row["name"] for row in report["languages"] if "baseline" in row["figures"]} == {*FIVE, SIXTH}
    assert "ru" in Path(third.report).with_name("report.md").read_text()
    of_five, of_six = fingerprint(second), fingerprint(third)
    assert of_five != of_six

    # Back: servers and the next run continue with the version of five.
    taken, now = roll_back(whole, metadata_file(whole), "Spanish users complain.")
    assert (taken.number, now) == (int(Path(third.pushed).name), int(Path(second.pushed).name))
    status(root=Path(whole.root))
    assert "Spanish users complain." in capsys.readouterr().out
    lake = {"_id": "lake", "text": "A lake was found below the ice.", "language": "en"}
    atlas.arrive((*FIVE, SIXTH), FIVE, lake)
    atlas.list_languages("training", FIVE)
    again = run_pipeline(grown, "refresh")
    assert Path(again.pushed).name > Path(third.pushed).name
    assert fingerprint(again) == of_five


def figures(outcome: Outcome) -> dict[str, float]:
    """nDCG@10 by language, as the report has it."""
    report = json.loads(Path(outcome.report).with_name("report.json").read_text())
    return {row["name"]: row["figures"]["xtr"]["nDCG@10"]["value"] for row in report["languages"]}


def fingerprint(outcome: Outcome) -> str:
    card = json.loads(Path(outcome.pushed, "model_card.json").read_text())
    return str(card["encoder"]["fingerprint"])


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
