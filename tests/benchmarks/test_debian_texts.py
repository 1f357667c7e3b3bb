"""What is read out of Debian's packages: dictionaries of both directions, manuals, definitions."""

from __future__ import annotations

import base64
import gzip

import pytest


@pytest.fixture(scope="module")
def debian_texts(mxtr_module):
    return mxtr_module("debian_texts")


def write_dictionary(folder, name, entries):
    """Writes a dictionary as dictd does: places are numbers in base 64."""
    home = folder / "usr" / "share" / "dictd"
    home.mkdir(parents=True, exist_ok=True)
    content, index = b"", []
    for head, entry in entries:
        index.append(f"{head}\t{number(len(content))}\t{number(len(entry.encode()))}")
        content += entry.encode()
    (home / f"{name}.dict.dz").write_bytes(gzip.compress(content))
    (home / f"{name}.index").write_text("\n".join(["00databaseshort\tA\tA", *index]) + "\n", "utf-8")


def number(value):
    """The last 24 bits in base 64, as the standard library writes them."""
    return base64.b64encode(value.to_bytes(3, "big")).decode()


def test_a_foreign_word_and_its_translations(debian_texts, tmp_path):
    entries = [
        ("deterioro", "deterioro /dˌeteɾjˈoɾo/ <n, masc>\n1. damage [tech.], wear\n2. decay (old)\n"),
        ("lago", 'lago /lˈaɡo/\nlake\n      "un lago hondo"\n see: {mar}\n'),
    ]
    write_dictionary(tmp_path, "freedict-spa-eng", entries)
    assert debian_texts.dictionary(tmp_path, "freedict-spa-eng") == [
        ("damage, wear; decay", "deterioro"),
        ("lake", "lago"),
    ]


def test_an_english_word_and_its_translations(debian_texts, tmp_path):
    entry = 'applicant /ˈaplɪkənt/ <N>\n1. प्रार्थी, आवेदक\n      "The applicants must write."\n'
    write_dictionary(tmp_path, "freedict-eng-hin", [("applicant", entry)])
    assert debian_texts.dictionary(tmp_path, "freedict-eng-hin") == [
        ("applicant", "प्रार्थी"),
        ("applicant", "आवेदक"),
    ]


def test_meanings_are_indented_in_muellers_dictionary(debian_texts, tmp_path):
    entries = [("brandling", "brandling\n   [↗brændlɪŋ] _n. дождевой червь\n")]
    write_dictionary(tmp_path, "mueller7", entries)
    assert debian_texts.dictionary(tmp_path, "mueller7") == [("brandling", "дождевой червь")]


def test_meanings_with_a_remark_and_what_is_not_one(debian_texts, tmp_path):
    """A meaning that begins with its field is indented by a space; notes are indented further."""
    entry = "Scheibe /ʃˈaɪbə/ <n, fem>\n [cook.] slice\nX-ray film\n   Synonym: {Platte}\n see: {Brot}\n"
    entries = [("Scheibe", entry), ("er/sie hasst", "er/sie hasst /ɛɾ ziː hˈast/\nhe/she hates\n")]
    write_dictionary(tmp_path, "freedict-deu-eng", entries)
    assert debian_texts.dictionary(tmp_path, "freedict-deu-eng") == [
        ("slice; X-ray film", "Scheibe"),
        ("he/she hates", "er/sie hasst"),
    ]


def test_only_english_loses_its_articles(debian_texts, tmp_path):
    entries = [("often", "often\na menudo\n"), ("the deep", "the deep\nlo hondo\n")]
    write_dictionary(tmp_path, "freedict-eng-spa", entries)
    found = debian_texts.dictionary(tmp_path, "freedict-eng-spa")
    assert found == [("often", "a menudo"), ("deep", "lo hondo")]


def test_a_chinese_character_is_a_word_and_a_letter_is_not(debian_texts):
    assert debian_texts.usable("犬", 40)
    assert not debian_texts.usable("d", 40)


def test_likely_words_come_first_and_unknown_ones_not_at_all(debian_texts, repository):
    from sentencepiece import SentencePieceProcessor

    pieces = SentencePieceProcessor(model_file=str(repository / "models/mxtr_tiny/tokenizer.model"))
    pairs = [("rare", "deteriorieren"), ("unknown", "\U00013000"), ("house", "Haus")]
    assert debian_texts.most_likely(pairs, pieces) == [("house", "Haus"), ("rare", "deteriorieren")]


def test_signs_of_vowels_are_removed(debian_texts):
    assert debian_texts.cleaned("الأَرِسْتُقْراط /ʔar/") == "الأرستقراط"


def test_a_word_has_all_of_its_translations_and_english_words_are_left_out(debian_texts):
    pairs = [("tall; high", "alto"), ("stop", "alto"), ("high", "alto"), ("try", "tried"), ("tried", "try")]
    assert debian_texts.gathered(pairs) == [("tall; high; stop", "alto")]


def test_paragraphs_that_nobody_translated_are_left_out(debian_texts, tmp_path):
    pages = {
        "en-US": ["Enter the <b>password</b>.", "Find &amp; Replace dialog", "Only here"],
        "vi": ["Nhập mật khẩu.", "Find &amp; Replace dialog"],
    }
    for language, texts in pages.items():
        page = tmp_path / "usr/share/libreoffice/help" / language / "text/shared/a.html"
        page.parent.mkdir(parents=True)
        rows = [f'<p id="par_{n}" class="paragraph">{text}</p>' for n, text in enumerate(texts)]
        page.write_text("\n".join(rows), "utf-8")
    assert debian_texts.manual(tmp_path, "vi") == [("Enter the password.", "Nhập mật khẩu.")]


def test_definitions_of_words(debian_texts, tmp_path):
    licence = "  1 This software and database is being provided to you\n"
    line = "02084071 05 n 02 dog 0 domestic_dog 0 001 @ 02083346 n 0000 | a member of the genus Canis  \n"
    for kind in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"data.{kind}").write_text(licence + (line if kind == "noun" else ""), "utf-8")
    assert debian_texts.definitions(tmp_path) == ["dog, domestic dog: a member of the genus Canis"]
