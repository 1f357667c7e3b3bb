"""A small corpus with questions in four languages that the example does not have, like a new user's own data.

Made from a table of invented rivers and mountains, so that no model knows them and no two documents answer
the same question.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LANGUAGES = ("it", "ko", "pl", "tr")

_NAMES = ("Arvena", "Belduin", "Corvath", "Dalmira", "Ethonar", "Felsung", "Garvan", "Hesturin", "Ilvane")
_NAMES += ("Jorath", "Kelmar", "Lusiane")
_KINDS: dict[str, dict[str, tuple[str, str]]] = {
    "river": {
        "it": (
            "Il fiume {name} è lungo {number} chilometri e sfocia nel mare del nord dopo una grande cascata.",
            "Quanto è lungo il fiume {name}?",
        ),
        "ko": (
            "{name} 강의 길이는 {number}킬로미터이며 큰 폭포를 지나 북쪽 바다로 흘러든다.",
            "{name} 강의 길이는 얼마인가?",
        ),
        "pl": (
            "Rzeka {name} ma {number} kilometrów długości i za wielkim wodospadem wpada do morza północnego.",
            "Jaką długość ma rzeka {name}?",
        ),
        "tr": (
            "{name} nehri {number} kilometre uzunluğundadır ve bir şelaleden sonra kuzey denizine dökülür.",
            "{name} nehrinin uzunluğu ne kadardır?",
        ),
    },
    "mountain": {
        "it": (
            "Il monte {name} raggiunge {number} metri ed è coperto di neve per nove mesi all'anno.",
            "Quanto è alto il monte {name}?",
        ),
        "ko": (
            "{name} 산의 높이는 {number}미터이고 일 년에 아홉 달 동안 눈으로 덮여 있다.",
            "{name} 산은 얼마나 높은가?",
        ),
        "pl": (
            "Góra {name} wznosi się na {number} metrów i przez dziewięć miesięcy w roku pokrywa ją śnieg.",
            "Jak wysoka jest góra {name}?",
        ),
        "tr": (
            "{name} dağı {number} metre yüksekliğindedir ve yılın dokuz ayı karla kaplıdır.",
            "{name} dağının yüksekliği nedir?",
        ),
    },
}


def documents() -> list[dict[str, Any]]:
    """All documents: 2 kinds of 12 names in each language."""
    return [
        {
            "_id": f"{language}-{kind}-{name.lower()}",
            "title": name,
            "text": texts[language][0].format(name=name, number=300 + 37 * place),
            "language": language,
        }
        for kind, texts in _KINDS.items()
        for place, name in enumerate(_NAMES)
        for language in LANGUAGES
    ]


def pairs() -> list[dict[str, Any]]:
    """A question for every document, and one more in other words."""
    found = []
    for document in documents():
        language, kind, _ = document["_id"].split("-")
        positive = {"id": document["_id"], "title": document["title"], "text": document["text"]}
        question = _KINDS[kind][language][1].format(name=document["title"])
        for number, query in enumerate((question, f"{document['title']}? {question}")):
            name = f"{document['_id']}-{number}"
            found.append({"id": name, "query": query, "language": language, "positives": [positive]})
    return found


def harmless(count: int) -> list[dict[str, Any]]:
    """More documents, which answer none of the questions."""
    texts = {
        "it": "Nel villaggio numero {n} si tiene ogni anno una festa del pane.",
        "ko": "{n}번 마을에서는 해마다 빵 축제가 열린다.",
        "pl": "We wsi numer {n} co roku odbywa się święto chleba.",
        "tr": "{n} numaralı köyde her yıl bir ekmek şenliği yapılır.",
    }
    return [
        {"_id": f"{language}-village-{n}", "text": texts[language].format(n=n), "language": language}
        for n in range(count // len(LANGUAGES))
        for language in LANGUAGES
    ]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Writes JSONL."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path
