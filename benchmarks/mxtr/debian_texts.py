"""Writes parallel texts that come from Debian's packages: dictionaries, manuals, and a translation by rules.

    python benchmarks/mxtr/debian_texts.py --data .bench/study/data --out .bench/mxtr/parallel

It needs Debian's `apt-get` and `dpkg-deb`, and the package `apertium-eng-spa`. Files have the lines of the
parallel sets, `{"en", "text"}`: `dictionary_XX` a word or phrase and its translations, `manual_XX` paragraphs
of LibreOffice's help, `apertium_es` sentences of the training sets and definitions. `definitions_en` has
WordNet's definitions of English words as `{"text"}`.
"""

from __future__ import annotations

import argparse
import gzip
import html
import random
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from sentencepiece import SentencePieceProcessor
from training_sets import is_held_out, read, write

#: The dictionaries of a language, and which side is English.
DICTIONARIES = {
    "ar": ("freedict-ara-eng", "freedict-eng-ara"),
    "de": ("freedict-deu-eng",),
    "el": ("freedict-ell-eng", "freedict-eng-ell"),
    "es": ("freedict-spa-eng", "freedict-eng-spa"),
    "hi": ("freedict-eng-hin",),
    "ja": ("freedict-jpn-eng",),
    "ru": ("freedict-eng-rus", "mueller7"),
    "tr": ("freedict-tur-eng", "freedict-eng-tur"),
}
LATIN = ("de", "es", "tr")
MANUALS = ("de", "el", "es", "hi", "id", "ja", "ru", "tr", "vi", "zh-cn")
MEANINGS = 4  # of a word, at most
TRANSLATED, TRANSLATED_CHARACTERS = 40_000, (20, 200)
# Arabic texts seldom write these.
_VOWELS = re.compile("[\u064b-\u0652\u0640]")
# Pronunciation, grammar and remarks.
_ASIDES = re.compile(
    r"(?:^|\s)//?[^/]+//?|<[^>]*>|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|_[\w-]+\.|\b(?:sb|sth)\b\.?|\""
)
_NUMBER = re.compile(r"^\s*(?:[0-9]+[.)]|_[IVX]+\b|[а-я]\))\s*")
_TAG = re.compile(r"<[^>]+>")
_PARAGRAPH = re.compile(r'<p id="([^"]+)"[^>]*>(.*?)</p>', re.DOTALL)
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that unpack.sh made")
    parser.add_argument("--tokenizer", type=Path, default=Path("models/mxtr_tiny/tokenizer.model"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    for program in ("apt-get", "dpkg-deb", "apertium"):
        if shutil.which(program) is None:
            parser.error(f"This needs Debian's programs; {program!r} is not installed.")
    packages = arguments.out / "packages"
    names = [name for own in DICTIONARIES.values() for name in own]
    unpack(packages, [f"{n}-dict" if n == "mueller7" else f"dict-{n}" for n in names])
    unpack(packages, ["wordnet-base", "libreoffice-help-en-us", *(f"libreoffice-help-{n}" for n in MANUALS)])
    pieces = SentencePieceProcessor(model_file=str(arguments.tokenizer))
    for language, own in DICTIONARIES.items():
        pairs = [pair for name in own for pair in dictionary(packages, name)]
        if language not in LATIN:
            pairs = [(english, text) for english, text in pairs if not text.isascii()]
        write_pairs(arguments.out / f"dictionary_{language}.jsonl", most_likely(gathered(pairs), pieces))
    for name in MANUALS:
        write_pairs(arguments.out / f"manual_{name[:2]}.jsonl", manual(packages, name))
    defined = definitions(packages / "usr/share/wordnet")
    write(arguments.out / "definitions_en.jsonl", ({"text": text} for text in defined))
    write_pairs(arguments.out / "apertium_es.jsonl", translated(arguments.data / "train", defined))


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> None:
    """Writes pairs of an English and a foreign text."""
    write(path, ({"en": english, "text": text} for english, text in pairs))
    print(f"{path.stem}: {len(pairs):,}", flush=True)


def gathered(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Gathers the translations of each foreign word.

    A word that is also an English one is left out: entries name the forms of an English word, too.
    """
    words = {word for english, _ in pairs for word in split(english)}
    found: dict[str, dict[str, None]] = {}
    for english, text in pairs:
        if text not in words and english.isascii():
            found.setdefault(text, {}).update(dict.fromkeys(split(english)))
    return [("; ".join(list(own)[:MEANINGS]), text) for text, own in found.items()]


def most_likely(pairs: list[tuple[str, str]], pieces: SentencePieceProcessor) -> list[tuple[str, str]]:
    """Sorts pairs by the probability of the foreign word, without words of characters that are no pieces."""
    ids = pieces.encode([text.lower() for _, text in pairs])
    known = [number for number, own in enumerate(ids) if not any(map(pieces.is_byte, own))]
    likelihood = {number: sum(map(pieces.get_score, ids[number])) for number in known}
    return [pairs[number] for number in sorted(known, key=likelihood.__getitem__, reverse=True)]


def unpack(folder: Path, names: list[str]) -> None:
    """Downloads packages and unpacks them, without installing them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        done = folder / f"{name}.unpacked"
        if not done.exists():
            for older in folder.glob(f"{name}_*.deb"):
                older.unlink()
            command = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", name]
            subprocess.run(command, cwd=folder, check=True)
            (package,) = folder.glob(f"{name}_*.deb")
            subprocess.run(["dpkg-deb", "-x", package.name, "."], cwd=folder, check=True)
            done.touch()


def dictionary(folder: Path, name: str) -> list[tuple[str, str]]:
    """Reads a dictionary in dictd's format as pairs of an English and a foreign text."""
    path = folder / "usr/share/dictd" / f"{name}.dict.dz"
    content = gzip.decompress(path.read_bytes())
    english_first = name.startswith(("freedict-eng-", "mueller"))
    places = dict.fromkeys(
        tuple(line.split("\t")[1:3])
        for line in path.with_name(f"{name}.index").read_text("utf-8").splitlines()
        if not line.startswith("00")
    )
    pairs = []
    for start, size in places:
        entry = content[_number(start) : _number(start) + _number(size)].decode("utf-8", "replace")
        heads, meanings = read_entry(entry, name == "mueller7")
        if english_first:
            texts = [text for meaning in meanings for text in split(meaning)]
            pairs += [(bare(head), text) for head in heads for text in texts]
        elif meanings:
            pairs += [("; ".join(map(bare, meanings)), head) for head in heads]
    return [(english, text) for english, text in pairs if usable(english, 120) and usable(text, 40)]


def read_entry(entry: str, indented: bool) -> tuple[list[str], list[str]]:
    """Returns the words of an entry and their meanings.

    Lines that are indented by more than a space are examples and notes, except in Mueller's dictionary.
    """
    first, *lines = entry.strip("\n").splitlines() or [""]
    if not indented:
        lines = [line for line in lines if line[:2].strip() and not line.strip().startswith("see:")]
    meanings = [cleaned(_NUMBER.sub("", line)) for line in lines]
    heads = [cleaned(head) for head in _ASIDES.sub(" ", first).split(", ")]
    return [head for head in heads if head], [own for own in meanings if own]


def cleaned(text: str) -> str:
    """Removes pronunciations, grammar and remarks."""
    text = _VOWELS.sub("", _ASIDES.sub(" ", unicodedata.normalize("NFKC", text))).replace("~", " ")
    return " ".join(text.split()).replace(" ,", ",").strip(" ,;.:-=()")


def bare(text: str) -> str:
    """Removes an English article, or the "to" of a verb."""
    return re.sub(r"^(?:to|a|an|the) ", "", text)


def split(meaning: str) -> list[str]:
    """Splits a list of translations."""
    return [part.strip(" .") for part in re.split("[,;،؛、]", meaning) if part.strip(" .")]


def usable(text: str, longest: int) -> bool:
    """Says whether a text is a word or a short phrase. A Chinese character is a word, a letter is not."""
    return len(text) <= longest and any(map(str.isalpha, text)) and (len(text) > 1 or text > "\u2e80")


def _number(digits: str) -> int:
    value = 0
    for digit in digits:
        value = 64 * value + _DIGITS.index(digit)
    return value


def manual(folder: Path, name: str) -> list[tuple[str, str]]:
    """Reads the paragraphs of LibreOffice's help that are translated."""
    root = folder / "usr/share/libreoffice/help"
    (home,) = [path for path in root.iterdir() if path.name.lower() == name]
    pairs = []
    for path in sorted(home.glob("text/**/*.html")):
        other = root / "en-US" / path.relative_to(home)
        if other.is_file():
            english, own = paragraphs(other), paragraphs(path)
            pairs += [(english[n], own[n]) for n in own if n in english]
    return [pair for pair in dict.fromkeys(pairs) if is_translation(*pair)]


def is_translation(english: str, text: str) -> bool:
    """Says whether most words differ; names and commands stay, and what nobody translated."""
    words = set(english.split())
    return len(words & set(text.split())) < len(words) / 2


def paragraphs(path: Path) -> dict[str, str]:
    """Returns the paragraphs of a page by their names."""
    found = _PARAGRAPH.findall(path.read_text("utf-8", "replace"))
    return {name: " ".join(html.unescape(_TAG.sub("", text)).split()) for name, text in found}


def definitions(folder: Path) -> list[str]:
    """Reads WordNet's words with their definitions and examples."""
    texts = []
    for kind in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{kind}").read_text("utf-8").splitlines():
            if not line.startswith(" "):
                fields, gloss = line.split(" | ", 1)
                parts = fields.split(" ")
                words = parts[4 : 4 + 2 * int(parts[3], 16) : 2]
                texts.append(f"{', '.join(word.replace('_', ' ') for word in words)}: {gloss.strip()}")
    random.Random(0).shuffle(texts)
    return texts


def translated(folder: Path, defined: list[str]) -> list[tuple[str, str]]:
    """Translates English sentences to Spanish by Apertium's rules."""
    texts = list(dict.fromkeys(sentences(folder, defined)))
    random.Random(0).shuffle(texts)
    texts = texts[:TRANSLATED]
    command = ["apertium", "-n", "-u", "eng-spa"]
    finished = subprocess.run(command, input="\n\n".join(texts), capture_output=True, text=True, check=True)
    spanish = finished.stdout.strip("\n").split("\n\n")
    if len(spanish) != len(texts):
        raise RuntimeError(f"Apertium returned {len(spanish):,} texts for {len(texts):,}")
    return [pair for pair in zip(texts, (text.strip() for text in spanish), strict=True) if pair[1]]


def sentences(folder: Path, defined: list[str]) -> Iterator[str]:
    """Yields English questions, sentences and definitions that are neither very short nor long."""
    shortest, longest = TRANSLATED_CHARACTERS
    rows = [
        row
        for name in ("squad_nqg_test_en", "fairytaleqa_en", "medquad_en")
        for row in read(folder / f"{name}.jsonl")
        if not is_held_out(row["text"])
    ]
    found = [row["query"] for row in rows]
    found += [part for row in rows for part in re.split(r"(?<=[.!?]) +", row["text"])[:3]]
    for text in (*found, *defined[:20_000]):
        line = " ".join(text.split())
        if shortest < len(line) < longest:
            yield line


if __name__ == "__main__":
    main()
