"""Writes the messages of Debian's programs in languages that no teacher knows, as parallel texts.

    python benchmarks/mxtr/debian_messages.py --out .bench/mxtr/debian

It needs `apt-file` (`apt-file update` once) and downloads about a gigabyte: every package below `LARGEST`
with translated messages. Files have the lines of the parallel sets, `{"en", "text"}`: `messages_XX`
sentences, `lexicon_XX` a word or phrase and its translations, with those first on which several packages
agree.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from babel.messages.mofile import read_mo
from debian_texts import MEANINGS, most_likely, write_pairs
from sentencepiece import SentencePieceProcessor

LANGUAGES = ("el", "hi", "vi")
LARGEST = 20_000_000  # bytes of a package
AT_ONCE = 50  # packages of a download
SENTENCES, PHRASES = 70_000, 40_000  # of a language, at most
WORDS_OF_PHRASE, WORDS_OF_MEANING = 4, 2
SHORTEST, LONGEST = 3, 300  # characters of a message
_MARKUP = re.compile(r"<[^<>]{1,200}>")
_SHORTCUT = re.compile(r"\([&_]\w\)|&(?=\w)|(?<!\w)_(?=\w)|(?<=\w)_(?=\w)")
# Format strings, paths and code.
_CODE = re.compile(r"[%$<>{}\\|@=_]|https?:|\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", type=Path, default=Path("models/mxtr_tiny/tokenizer.model"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    folder = arguments.out / "messages"
    download(folder, small_packages(packages_with_messages()))
    pieces = SentencePieceProcessor(model_file=str(arguments.tokenizer))
    for language in LANGUAGES:
        found = [
            (package.name, english, text)
            for package in sorted(folder.iterdir())
            for english, text in dict.fromkeys(messages(package, language))
        ]
        pairs = list(dict.fromkeys((english, text) for _, english, text in found))
        random.Random(0).shuffle(pairs)
        sentences = [pair for pair in pairs if len(pair[0].split()) >= WORDS_OF_PHRASE]
        write_pairs(arguments.out / f"messages_{language}.jsonl", sentences[:SENTENCES])
        agreed, others = phrases(found)
        ordered = [*most_likely(agreed, pieces), *most_likely(others, pieces)]
        write_pairs(arguments.out / f"lexicon_{language}.jsonl", ordered[:PHRASES])


def packages_with_messages() -> list[str]:
    """Asks apt-file which packages have messages in one of the languages."""
    pattern = rf"^/usr/share/locale/({'|'.join(LANGUAGES)})/LC_MESSAGES/[^/]+\.mo$"
    command = ["apt-file", "search", "--regexp", "--package-only", pattern]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def small_packages(names: Sequence[str]) -> list[str]:
    """Leaves out packages that are too large to be downloaded for their messages."""
    command = ["apt-cache", "show", "--no-all-versions", *names]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sizes = dict(re.findall(r"^Package: (\S+)$.*?^Size: (\d+)$", shown, re.MULTILINE | re.DOTALL))
    return [name for name in names if int(sizes.get(name, LARGEST)) < LARGEST]


def download(folder: Path, names: Sequence[str]) -> None:
    """Unpacks the messages of packages, each to a folder of its name. A stopped download continues."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not (folder / name).is_dir()]
    for start in range(0, len(missing), AT_ONCE):
        command = [
            "apt-get",
            "download",
            "-qq",
            "-o",
            "APT::Sandbox::User=root",
            *missing[start : start + AT_ONCE],
        ]
        subprocess.run(command, cwd=folder, check=True)
        for package in folder.glob("*.deb"):
            home = folder / package.name.split("_", 1)[0]
            partial = home.with_suffix(".partial")
            partial.mkdir(exist_ok=True)
            unpacked = subprocess.run(
                ["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True
            )
            command = ["tar", "-x", "-C", str(partial), "--wildcards", "*/LC_MESSAGES/*.mo"]
            subprocess.run(command, input=unpacked.stdout, check=True)
            partial.rename(home)
            package.unlink()
        print(f"{min(start + AT_ONCE, len(missing)):,} of {len(missing):,} packages", flush=True)


def messages(package: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yields a package's messages and their translations, as plain text."""
    for path in sorted(package.glob(f"usr/share/locale/{language}/LC_MESSAGES/*.mo")):
        try:
            with path.open("rb") as file:
                catalogue = read_mo(file)
        except ValueError:  # a header that Babel cannot read
            continue
        for message in catalogue:
            if message.id and isinstance(message.id, str) and isinstance(message.string, str):
                english, text = plain(message.id), plain(message.string)
                if is_usable(english, text):
                    yield english, text


def plain(message: str) -> str:
    """Removes markup and the marks of keyboard shortcuts."""
    return " ".join(_SHORTCUT.sub("", _MARKUP.sub("", message)).split())


def is_usable(english: str, text: str) -> bool:
    """Whether both are texts, and the second one is translated: these languages go beyond ASCII."""
    lengths = (len(english), len(text))
    return (
        min(lengths) >= SHORTEST
        and max(lengths) <= LONGEST
        and not text.isascii()
        and any(map(str.isalpha, english))
        and not _CODE.search(english + text)
    )


def phrases(found: Iterable[tuple[str, str, str]]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Gathers the translations of words and short phrases.

    Args:
        found: Packages, English messages and translations.

    Returns:
        English translations, the most frequent first, and the phrase: of phrases with a translation on which
        at least two packages agree, and of the others.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for _, english, text in found:
        if len(text.split()) <= WORDS_OF_PHRASE and len(english.split()) <= WORDS_OF_MEANING:
            counts[text.lower().strip(" .:…")][english.lower().strip(" .:…")] += 1
    agreed, others = [], []
    for text, own in counts.items():
        (_, most), *_ = own.most_common(1)
        pair = ("; ".join(english for english, _ in own.most_common(MEANINGS)), text)
        (agreed if most > 1 else others).append(pair)
    return agreed, others


if __name__ == "__main__":
    main()
