"""Writes the most frequent words of many languages, from wordfreq.

    python benchmarks/mxtr/frequent_words.py .bench/mxtr/frequent_words.jsonl

Run inside the environment `words` of `benchmarks/environments.py`. Every line is one language:
`{"language", "words", "frequencies"}`, the most frequent words first, in small letters.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

MOST, FEWER = 100_000, 20_000  # words of a language that has a test set, and of the others
TESTED = ("ar", "de", "el", "en", "es", "hi", "ja", "ru", "tr", "vi", "zh")


def main() -> None:
    import wordfreq

    lines = []
    for language in sorted(wordfreq.available_languages("best")):
        known = wordfreq.get_frequency_dict(language, "best")
        words = [word for word in known if any(map(str.isalnum, word))]
        words = sorted(words, key=known.__getitem__, reverse=True)[: MOST if language in TESTED else FEWER]
        frequencies = [known[word] for word in words]
        lines.append(json.dumps({"language": language, "words": words, "frequencies": frequencies}))
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text("\n".join(lines) + "\n", "utf-8")
    temporary.rename(path)


if __name__ == "__main__":
    main()
