"""Decide whether an answer fits its question, and which passages state it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from hoptree.core.lazy import lazy_re
from hoptree.core.values import CONTENTS, Answer, Passage
from hoptree.text.comparison_questions import answers_half, detect_comparison, expected_answer_type
from hoptree.text.grounding import (
    Name,
    Quote,
    find_quote,
    fold_words,
    folded_passage,
    grounded,
    held_parts,
    holding,
    names_in,
    numbered_names,
    read_verdict,
    share_of_names,
    stems,
)
from hoptree.text.names import CLOSED, name_spans, sentence_spans, word_set
from hoptree.text.parse import question_key, read_yes_no
from hoptree.text.quantities import countries, date_spans, read_dates, read_quantity
from hoptree.text.tokens import UNSPACED, language_of

_WORD = lazy_re(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
_ROW = lazy_re(r"[^:;|\n]{1,100}: [^\n]*?; [^:;|\n]{1,100}: |[^\n|]+ \| ")
"""A row of a table: "name: Antigua; currency: XCD", or cells between bars."""
_STEM_CHARS = 5  # so that "Horsas" is Horsa, and "Kassebaum's" Kassebaum
_MIN_WORD_CHARS = 3
_KINDS = CLOSED | word_set(
    "academy airport album award awards band battle book cathedral church city club college company county cup "
    "district emperor festival film institute island islands king kingdom lady lake league lord mount mountain "
    "mountains movie museum national new north northern novel party pope president prince princess prize province "
    "queen region republic river royal saint school sir song south southern east eastern west western state states "
    "station street team town union united university village war world "
    "bridge building canal castle dam flight hotel library model palace railway road ship square theater theatre tower "
    "train tunnel"
)  # words that do not tell names of the same kind apart
_TITLES = CLOSED | word_set(
    "baron baroness captain count countess dame doctor dr duke earl emperor empress general herr king lady lord madame "
    "major miss mme monsieur mr mrs ms pope president prince princess prof professor queen saint senator sir st von van"
)  # words before a last name that are no first names
_ORDINARY = _KINDS | word_set(
    "born died lived wrote written sang sung won made played directed founded located called named known first last "
    "best most biggest largest longest highest oldest many much long old time type kind number name person people "
    "place year date day country capital actor actress author director singer writer wife husband son daughter"
)  # words of questions that are no names
_MAX_ASKED_WORDS = 64
_BRACKETED = " ("
_BIRTH = lazy_re(
    r"\b(?:born|birth\w*|native|née?|gebor\w*|geburt\w*|gebürtig\w*)\b|(?:\bb\.|\*)\s?\d|出生|生于|诞生", re.I
)
_DEATH = lazy_re(
    r"\b(?:did\b[^?]*\bdie|died|dying|dead|deaths?|deceased|passed away|killed|murdered|executed"
    r"|(?:ver)?st(?:arb(?:en)?|orben\w*)|gestorben|todes\w*|tode?)\b|\bd\.\s?\d|†|去世|逝世|死",
    re.IGNORECASE,
)
_LIFE = lazy_re(r"\(([^()]*?\d[^()]*?)(?:\s?[–—]\s?|\s-\s|(?<=\d{4})-(?=\d{4}))([^()]*\d[^()]*)\)")
_ALTERNATIVES = lazy_re(r"\b(?:or|oder)\b|还是|或", re.IGNORECASE)
_ASKS_NUMBER = lazy_re(
    r"\W*(?:\w+\s+)?how\s+(?:many|much|old|tall|high|far|long|large|big|deep|wide|heavy|fast)\b"
    r"|\W*what\s+(?:is|was)\s+(?:the\s+(?:population|number|height|length|depth|weight|elevation)\s+of|.+['’]s\s+"
    r"(?:population|height|length|depth|weight|elevation)\W*\Z)",
    re.IGNORECASE,
)
_ASKS_DATE = lazy_re(r"\W*(?:\w+\s+)?(?:what|which)\s+(?:year|date)\b", re.IGNORECASE)  # months and days have names
_ANY_NAME = lazy_re(r"(?:(?:the|an?)\s+)?(?!\d)\w[\w.'’-]*(?:\s+(?!\d)[\w.'’-]+)*", re.IGNORECASE)
_SMALL = CLOSED | word_set("de la van von der da del di el al")
_AMOUNTS = word_set(
    "all billions both countless dozens enough few free half hundreds infinite many millions most no nobody none "
    "nothing once several some thousands trillions twice unknown various zero"
)
_DIGIT = lazy_re(r"\d")
_LETTER = lazy_re(r"[^\W\d_]")
_WHEN = lazy_re(r"\W*(?:(?:and|so|then|since|until|by)\s+)?when\b", re.IGNORECASE)
_LEAD = lazy_re(r"\W*(?:(?:in|on|at|near|from|around|about|the|an?)\s+)*", re.IGNORECASE)
# Names of times: the Middle Ages, World War II, Easter, the Jurassic. Some months and days are people's names too.
_TIME_WORD = lazy_re(
    r"\b(?:ages?|eras?|periods?|epochs?|times?|years?|months?|weeks?|days?|night|eve|season|century|centuries|wars?"
    r"|reign|dynasty|revolution|renaissance|antiquity|depression|olympics|games|spring|summer|autumn|fall|winter"
    r"|christmas|easter|ramadan|january|february|march|april|may|june|july|august|september|october|november"
    r"|december|\w+days?|\w+(?:ian|ic|cene|ous))\b",
    re.IGNORECASE,
)


def stating(answer: str, question: str, passages: Sequence[Passage]) -> tuple[set[str], set[str]]:
    """Return the ids of passages with an answer, and of those that name its thing.

    Several passages may hold the parts of an answer together. A row of a table is read without the other rows, since
    each is about a thing of its own. The head of an e-mail counts only if no text has the answer.
    """
    held, named = set[str](), set[str]()
    is_amount = read_quantity(answer) is not None and not date_spans(answer) and not read_verdict(answer)
    for drop_head in (True,) if is_amount else (True, False):
        for passage in passages:
            for text in _texts(_body(passage) if drop_head else passage):
                if holding(answer, "", [text]):
                    held.add(passage.id)
                    if names_thing(question, text) and (not is_amount or _states_number(answer, question, text)):
                        named.add(passage.id)
        if held:
            return held, named
    parts = [part for part in held_parts(answer, passages) if part.casefold() not in CLOSED]
    held = {name for part in parts for name in holding(part, "", passages)}
    is_named = any(passage.id in held and names_thing(question, passage) for passage in passages)
    return held, held if is_named else set()


def _body(passage: Passage) -> Passage:
    """Return a passage without the head of an e-mail."""
    if "\n" not in passage.text:
        return passage
    from hoptree.text.line_breaks import drop_mail_head

    return replace(passage, text=drop_mail_head(passage.text))


def _states_number(answer: str, question: str, passage: Passage) -> bool:
    """Return whether a sentence with a number has words of the question.

    The title counts. The 4 in the name "Skua 4" is not a number.
    """
    asked = stems(question) - stems(answer)
    for start, end in sentence_spans(passage.text):
        sentence = passage.text[start:end]
        for first, last in reversed(numbered_names(sentence) if answer.isdigit() else []):
            name = sentence[first:last]
            if name[-1].isdigit() and not {*fold_words(name)} & CLOSED and not stems(name) & asked:
                sentence = sentence[:first] + sentence[last:]
        if asked & stems(f"{passage.title} {sentence}") and holding(answer, "", [replace(passage, text=sentence)]):
            return True
    return False


def states_as_asked(answer: str, question: str, passage: Passage) -> bool:
    """Return whether a sentence states an answer with words of its question.

    Yes and no, words of the question itself and answers of a wrong type are not stated.
    """
    if read_verdict(answer) or f" {question_key(answer)} " in f" {question_key(question)} ":
        return False
    if explain_doubt(question, answer, computed=False) or not stating(answer, question, [passage])[1]:
        return False
    quote = quote_from([passage], answer, question)
    return quote is not None and bool((stems(question) - stems(answer)) & stems(f"{passage.title} {quote.text}"))


def places_of(answer: str, question: str, passages: Sequence[Passage]) -> tuple[list[int], bool]:
    """Return the places of passages with an answer, and if any has a name asked about.

    A table of contents counts only if no text has the answer. Behind yes or no, which no text has, are the passages
    with most words of a question without names.
    """
    held, named = stating(answer, question, passages)
    if passages and read_verdict(answer) and not names_in(question):
        asked = stems(question)
        shared = {passage.id: len(asked & stems(f"{passage.title} {passage.text}")) for passage in passages}
        named = {name for name, count in shared.items() if 2 * count > max(shared.values())}
    places = [place for place, passage in enumerate(passages) if passage.id in (named or held)]
    return [place for place in places if CONTENTS not in passages[place].metadata] or places, bool(named)


def rests_on_country(answer: str, passages: Sequence[Passage]) -> bool:
    """Return whether passages only name the country of a nationality: "from Poland"."""
    key = answer.strip(" .").casefold()
    is_held = key in countries().by_name and bool(holding(answer, "", passages))
    return is_held and not grounded(Answer(answer), "", passages).support


def is_choice(question: str, answer: str, sentence: str) -> bool:
    """Return whether a question offers an answer, and a sentence names only that.

    It says nothing then: "Is A or B older?" names A itself.
    """
    if f" {question_key(answer)} " not in f" {question_key(question)} ":
        return False
    offered = _ALTERNATIVES.search(question) or detect_comparison(question)
    return bool(offered) and not (sentence and share_of_names(question, sentence, without=answer) == 1)


def names_thing(question: str, passage: Passage, *, wholly: bool = False) -> bool:
    """Return whether a passage has a name of a question; `wholly`: all names.

    The title counts. A last name, another word for a country ("Polish"), or most words of a name are enough. Of names
    with a number ("RE 205") the number must be there too.
    """
    names = names_in(question) or _lower_case_names(question, passage)
    held = folded_passage(passage.title, passage.text)
    if wholly:
        return all(_is_named(name, passage, held) for name in names)
    names = tuple(name for name in names if name.number) or names
    return not names or any(_is_named(name, passage, held) for name in names)


def _lower_case_names(question: str, passage: Passage) -> tuple[Name, ...]:
    """Return what may be names in an English question without capitals.

    They are its words in a row that are not ordinary, and that the passage does not have in lower case; none are left
    if the question has the words of the title.
    """
    words = _asked_in_lower_case(question)
    title = [word for word in fold_words(passage.title.partition(_BRACKETED)[0]) if len(word) >= _MIN_WORD_CHARS]
    if not words or ((own := {*title} - _KINDS) and own <= {*words}):
        return ()
    used, runs = _lower_case_words(passage.text), [list[str]()]
    for word in words:
        if word in _ORDINARY or f" {word[:_STEM_CHARS]}" in used:
            runs.append([])
        else:
            runs[-1].append(word)
    return tuple(Name(" ".join(run), (" ".join(run),)) for run in runs if run)


@lru_cache(maxsize=256)
def _asked_in_lower_case(question: str) -> tuple[str, ...]:
    """Return the words of an English question without capitals, else ()."""
    is_lower = question.islower() and language_of(question) == "english"
    return tuple(fold_words(question)[:_MAX_ASKED_WORDS]) if is_lower else ()


@lru_cache(maxsize=64)
def _lower_case_words(text: str) -> str:
    return f" {' '.join(fold_words(' '.join(word for word in text.split() if word.islower())))} "


def _is_named(name: Name, passage: Passage, held: str) -> bool:
    """Return whether a passage has a name or another form of it, and its number."""
    if name.number and f" {name.number} " not in held:
        return f" {name.full}{name.number} " in held
    return name.stands_in(held) or _resembles(name, passage, held)


def _resembles(name: Name, passage: Passage, held: str) -> bool:
    """Return whether a passage has another form of a name."""
    known = countries().by_name
    if country := known.get(name.full):
        return any(f" {other} " in held for other, same in known.items() if same == country)
    words = [word for word in name.full.split() if len(word) >= _MIN_WORD_CHARS and word not in _KINDS]
    present = [f" {word[:_STEM_CHARS]}" in held for word in words]
    if not any(present) or 2 * sum(present) > len(present):
        return any(present)
    return present[-1] and not _is_of_another(words, f"{passage.title}. {passage.text}")


def _is_of_another(words: Sequence[str], text: str) -> bool:
    """Return whether a text has a last name only behind other first names.

    Initials ("E. Brandt") may be those of the first name that is asked for.
    """
    others = set[bool]()
    for start, end in name_spans(text):
        for parts in map(fold_words, re.split(r":\s|\n", text[start:end])):
            at = next((at for at, part in enumerate(parts) if part.startswith(words[-1][:_STEM_CHARS])), None)
            if at is not None:
                before = [part for part in parts[:at] if part not in _TITLES]
                others.add(any(part != words[0][: len(part)] for part in before))
    return others == {True}


def bridging(question: str, answer: str, stated: Sequence[Passage], passages: Iterable[Passage]) -> Passage | None:
    """Return a passage with a question's name and the title of an answer's passage.

    "Where did the director of Vertigo die?" needs a sentence of a page on Vertigo that names the page of the answer.
    """
    titles = [question_key(passage.title.partition(_BRACKETED)[0]) for passage in stated]
    wanted = [f" {title} " for title in titles if title and title != question_key(answer)]
    ids = {passage.id for passage in stated}
    for passage in passages:
        if passage.id in ids or not names_thing(question, passage):
            continue
        for start, end in sentence_spans(passage.text):
            sentence = passage.text[start:end]
            key = f" {question_key(sentence)} "
            if any(title in key for title in wanted) and names_thing(question, replace(passage, text=sentence)):
                return passage
    return None


def _texts(passage: Passage) -> Iterator[Passage]:
    """Yield a passage, or each row of its table with the lines around the table."""
    lines = passage.text.split("\n")
    rows = [line for line in lines if _ROW.match(line)]
    if len(rows) < 2:
        yield passage
        return
    around = "\n".join(line for line in lines if not _ROW.match(line))
    for row in ("", *rows):
        yield replace(passage, text=f"{around}\n{row}")


def fits_question_type(question: str, answer: str) -> bool | None:
    kind = expected_answer_type(question)
    if kind == "date":
        return bool(read_dates(answer))
    if kind == "number":
        return read_quantity(answer) is not None
    if kind == "yes or no":
        return read_yes_no(answer) is not None
    if kind in ("person", "place"):
        named = bool(_LETTER.search(answer)) and read_yes_no(answer) is None
        return named and not (kind == "person" and bool(_DIGIT.search(answer)))
    return None


def explain_type_mismatch(question: str, answer: str) -> str:
    """Explain why an answer is of the wrong type; "" if it may fit."""
    expected = expected_answer_type(question)
    if expected == "place" and _all_within(answer, date_spans(answer)):
        return "a place is asked for, and a date given"
    if expected == "date" and _WHEN.match(question) and fits_question_type(question, answer) is False:
        named = _all_within(answer, name_spans(answer, _begin(answer)))
        if named and not _DIGIT.search(answer) and not _TIME_WORD.search(answer):
            return "a date is asked for, and a name given"
    return ""


def _all_within(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Return whether a text holds nothing but these spans and small words before them."""
    rest = text[_begin(text) :]
    for start, end in spans:
        rest = rest.replace(text[start:end], " ", 1)
    return bool(spans) and re.search(r"\w", rest) is None


def _begin(text: str) -> int:
    lead = _LEAD.match(text)
    return lead.end() if lead else 0


def explain_doubt(question: str, answer: str, *, computed: bool) -> str:
    """Return why an answer cannot be all that a question asks for, or ""."""
    if answers_half(question, answer):
        return ", but the question asks for two things"
    mismatch = "" if computed else explain_misfit(question, answer)
    return f", but {mismatch}" if mismatch else ""


def is_of_other_end(question: str, answer: str, sentence: str) -> bool:
    """Return whether a sentence says it of a death, and the question asks for a birth.

    Or the other way round. Of a life's two dates in brackets, the first is the birth.
    """
    asks = [bool(word.search(question)) for word in (_BIRTH, _DEATH)]
    if asks.count(True) != 1:
        return False
    key = f" {question_key(answer)} "
    if (life := _LIFE.search(sentence)) and key not in f" {question_key(sentence.replace(life[0], ' '))} ":
        holds = [key in f" {question_key(part)} " for part in life.groups()]
        return holds.count(True) == 1 and holds != asks
    says = [bool(word.search(sentence)) for word in (_BIRTH, _DEATH)]
    return says.count(True) == 1 and says != asks


def explain_misfit(question: str, answer: str) -> str:
    """Explain why an answer in English is of the wrong type; "" if it may fit."""
    if mismatch := explain_type_mismatch(question, answer):
        return mismatch
    if expected_answer_type(question) == "person" and date_spans(answer) == ((0, len(answer)),):
        return "a person is asked for, and a date given"
    if not _is_name(answer):
        return ""
    if _ASKS_NUMBER.match(question):
        return "a number is asked for, and a name given"
    return "a date is asked for, and a name given" if _ASKS_DATE.match(question) else ""


def _is_name(answer: str) -> bool:
    """Return whether an answer is only a name: neither an amount nor a time."""
    words = answer.split()
    if not _ANY_NAME.fullmatch(answer) or _TIME_WORD.search(answer) or read_quantity(answer) is not None:
        return False
    if any(word.casefold() in _AMOUNTS or any(map(str.isdigit, word)) for word in words):
        return False
    return words[-1][0].isupper() and all(word[0].isupper() or word.casefold() in _SMALL for word in words)


def shorten_row(line: str, question: str, answer: str) -> str:
    """Return a row of a table with its first cell and those of question and answer."""
    if not _ROW.match(line) or "; " not in line:
        return line
    cells = line.split("; ")
    asked, wanted = f" {question_key(question)} ", question_key(answer)
    kept = []
    for place, cell in enumerate(cells):
        column, _, value = cell.partition(": ")
        is_asked = any(f" {question_key(part)} " in asked for part in (column, value) if question_key(part))
        kept.append(not place or is_asked or f" {wanted} " in f" {question_key(cell)} ")
    shown = [cell if keep else "…" for cell, keep in zip(cells, kept, strict=True)]
    return "; ".join(cell for place, cell in enumerate(shown) if cell != "…" or shown[place - 1 : place] != ["…"])


def quote_from(passages: Sequence[Passage], answer: str, asked: str) -> Quote | None:
    """Find the sentence to quote, across wrapped lines, and in an e-mail's head last."""
    if not any("\n" in passage.text for passage in passages):
        return find_quote(answer, asked, passages)
    from hoptree.text.line_breaks import drop_mail_head, unwrap_lines

    unwrapped = [replace(passage, text=unwrap_lines(passage.text)) for passage in passages]
    bodies = [replace(passage, text=drop_mail_head(passage.text)) for passage in unwrapped]
    return find_quote(answer, asked, bodies) or find_quote(answer, asked, unwrapped)


def without_copies(places: Sequence[int], passages: Sequence[Passage], answer: str, asked: str) -> list[int]:
    """Return the places without those that state an answer in the same sentence again.

    They are of other editions, such as a manual in HTML and PDF.
    """
    kept: dict[str, int] = {}
    for place in places:
        quote = quote_from([passages[place]], answer, asked)
        text = quote.text if quote else passages[place].text
        kept.setdefault(question_key(text) or text, place)
    return list(kept.values())


def best_stretch(text: str, answer: str, words: str, max_chars: int) -> tuple[int, int]:
    """Return begin and end of the first stretch with the answer and most of the words.

    Long words, and those that are rare in the text, count for more.
    """
    wanted = {word.casefold() for word in _WORD.findall(words)}
    spans = [(*match.span(), match[0].casefold()) for match in _WORD.finditer(text)]
    spans = [span for span in spans if span[2] in wanted]
    weights = {word: 1000 * len(word) // count for word, count in Counter(word for *_, word in spans).items()}
    if answer:
        held = re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE)
        spans = sorted([*spans, *((*match.span(), "") for match in held)])
        weights[""] = sum(weights.values()) + 1
    best, first, weight, inside = (0, 0, 0), 0, 0, Counter[str]()
    for start, end, word in spans:
        weight += 0 if inside[word] else weights[word]
        inside[word] += 1
        while end - spans[first][0] > max_chars and spans[first][0] < start:
            left = spans[first][2]
            inside[left] -= 1
            weight -= 0 if inside[left] else weights[left]
            first += 1
        if weight > best[0]:
            best = (weight, spans[first][0], end)
    return best[1:]
