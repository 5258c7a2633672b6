"""Equal forms of an answer: numbers, units, days, countries and demonyms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from hoptree.core.lazy import lazy_re
from hoptree.text.names import word_set
from hoptree.text.parse import join_words
from hoptree.text.quantities import (
    MONTH_NUMBERS,
    MONTHS,
    ONES,
    SCALES,
    SMALL_NUMBERS,
    TENS,
    UNITS,
    countries,
    date_spans,
    read_date,
    spelt_value,
)
from hoptree.text.tokens import UNSPACED, fold_option_dashes, identifier_signs

_SPELLINGS: dict[str, str] = {}  # of units, each to the first of its kind; nothing is converted
for _name, _unit in UNITS.items():
    _SPELLINGS[_name] = next(first for first, unit in UNITS.items() if unit == _unit)
for _line in (
    "percent % pct per_cent prozent|yen ¥ jpy|rupee ₹ inr rupees|euro € eur euros 欧元",
    "dollar $ us$ usd dollars us_dollars 美元",
    "gbp £ pounds_sterling|pound pounds|lb lbs|inch in zoll",
    "degc °c degrees_celsius|degf °f degrees_fahrenheit|degree ° degrees",
    "kmh km/h kph kilometres_per_hour kilometers_per_hour km_per_hour|mph miles_per_hour|ms milliseconds millisecond",
    "kb kilobytes kilobyte|mb megabytes megabyte|gb gigabytes gigabyte|tb terabytes terabyte",
    "km2 square_kilometres square_kilometers square_km sq_km",
    "m2 square_metres square_meters sq_m|mi2 square_miles sq_mi",
    "m 米|km 公里 千米|cm 厘米|kg 公斤 千克|h 小时 stunde stunden|min 分钟 minuten",
    "s 秒 sekunden|day tag tage tagen|year jahre",
):
    for _names in _line.split("|"):
        _first, *_others = _names.split()
        _SPELLINGS |= dict.fromkeys((_name.replace("_", " ") for _name in (_first, *_others)), _first)
_UNIT = "|".join(re.escape(name).replace(r"\ ", r"[\s-]+") for name in sorted(_SPELLINGS, key=len, reverse=True))
_UNIT = rf"in(?=\s*(?:[^\w\s-]|\Z|(?:long|wide|tall|high|thick|deep)\b))|(?!in\b)(?:{_UNIT})"
_WORD = lazy_re(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
_WORD_CHAR = rf"[^\W{UNSPACED}]"
_FIGURE = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3}){2,}|\d+(?:\.\d+|,\d{1,2})?"
_SCALE_FORMS = SCALES | {
    "millionen": 1e6,
    "mio": 1e6,
    "milliarden": 1e9,
    "mrd": 1e9,
    "tausend": 1e3,
    "万": 1e4,
    "亿": 1e8,
}
_GERMAN_NUMBERS = "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
_GERMAN = {word: float(value) for value, word in enumerate(_GERMAN_NUMBERS.split(" "), 2)}
_DIGIT_WORD, _TEN_WORD = "|".join(ONES.split()[1:10]), TENS.replace(" ", "|")
_BELOW_100 = rf"(?:(?:{_TEN_WORD})(?:[\s-]+(?:{_DIGIT_WORD}))?|{'|'.join(ONES.split())})"
_BELOW_1000 = rf"(?:(?:{_BELOW_100}|an?)[\s-]+hundred(?:[\s-]+(?:and[\s-]+)?{_BELOW_100})?|{_BELOW_100})"
_BIG = r"(?:thousand|million|billion|trillion)"
_PRONOUN = (
    r"one(?![\s-]+(?-i:[a-z]{3}))|one\s+(?:who|that|which|and|another|day|can|could|will|would|has|had|was|may)\b"
)
_SPELT_FORM = (
    rf"(?:(?:{_BELOW_1000}|an?)[\s-]+{_BIG}(?:,?[\s-]+(?:and[\s-]+)?{_BELOW_1000}(?:[\s-]+{_BIG})?)*"
    rf"|(?:{_BELOW_100}|an?)[\s-]+dozen|(?!{_PRONOUN}){_BELOW_1000}|(?!elf\s+(?-i:[a-zäöü]))(?:{'|'.join(_GERMAN)}))"
)
_AMOUNT = lazy_re(
    rf"(?<!{_WORD_CHAR})(?=[\daduefnostvz$€£¥₹−-])(?:(?P<currency>(?:US)?[$€£¥₹])\s?)?"
    rf"(?P<minus>(?<![\w.,)\]])(?<!\d )[-−])?(?<!{_WORD_CHAR})(?<!\d[.,])"
    rf"(?:(?P<figures>{_FIGURE})(?![.,]?\d)(?!\s?[ap]\.?m\b)"
    rf"(?:[\s-]?(?P<scale>{'|'.join(_SCALE_FORMS)})(?!{_WORD_CHAR}))?"
    rf"|(?<!\bno\s)(?<!\bthe\s)(?<!\bany\s)(?<!\bwhich\s)(?<!\bevery\s)(?P<spelt>{_SPELT_FORM})(?!{_WORD_CHAR}))"
    rf"(?:[\s-]{{0,2}}(?P<unit>{_UNIT})(?!{_WORD_CHAR}))?(?!{_WORD_CHAR})",
    re.IGNORECASE,
)
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth"
)
_NTH = {word: place for place, word in enumerate(_ORDINALS.split(), 1)}
_NTH |= {f"{word[:-1]}ieth": place for place, word in zip(range(20, 100, 10), TENS.split(), strict=True)}
_ORDINAL = lazy_re(
    rf"\b(\d+)(?:st|nd|rd|th)\b|(?<!\ba\s)(?<!\bper\s)\b(?:({_TEN_WORD})[\s-]+)?({'|'.join(_NTH)})\b",
    re.IGNORECASE,
)
_COLUMN = lazy_re(  # "Depth (m): 63" is 63 m
    rf"(?P<unit>[(\[]\s*(?P<name>{_UNIT})\s*[)\]])\s*[:=|]\s*(?P<value>(?:{_FIGURE}))(?![.,]?\d|\w)", re.IGNORECASE
)
_YEAR_ALONE = lazy_re(
    r"\b((?:in|since|until|by|from|during|before|after|year)\s+)(1\d{3}|20\d\d)(?=\s*(?:[;:)\]]|[.,](?!\d)|\Z))",
    re.IGNORECASE,
)
_HAN_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_SIZES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}
_HAN = "".join((*_HAN_DIGITS, *_HAN_SIZES))
_MEASURE = (
    "个個名位次年岁歲届屆部本条條只艘张張件章册篇卷集种種项項天周人所家辆輛架支枚间間"
    "号號月日座层層场場米公里厘毫元美欧度小分秒"
)  # behind a numeral; without it 三 may be part of a name
_NUMERAL = rf"[{_HAN}]{{1,12}}"
_HAN_NUMBER = lazy_re(rf"第{_NUMERAL}|(?<![{_HAN}]){_NUMERAL}(?=[{_MEASURE}])|\A{_NUMERAL}\Z")
_DAY_MONTHS = MONTH_NUMBERS | {"januar": 1, "februar": 2, "märz": 3, "mai": 5, "juni": 6, "juli": 7}
_DAY_MONTHS |= {"oktober": 10, "dezember": 12}
_DAY_MONTH = rf"(?!(?-i:may|march|mar)\b)(?:{'|'.join(sorted(_DAY_MONTHS, key=len, reverse=True))})\b"
_DAY = lazy_re(
    rf"\b(?P<m1>{_DAY_MONTH})\.?\s+(?:the\s+)?(?P<d1>\d{{1,2}})(?:th)?(?!\w|[.:]\d)"
    rf"|(?<![\w.,:])(?P<d2>\d{{1,2}})(?:th|\s*\.)?(?:\s+of)?\s+(?P<m2>{_DAY_MONTH})"
    r"|(?<!\d)(?P<m3>\d{1,2})\s*月\s*(?P<d3>\d{1,2})\s*[日号號]",
    re.IGNORECASE,
)
_OTHER_CASES = str.maketrans("İıſ\u212a", "iisk")  # letters that patterns take for i, s and k, ignoring case


@lru_cache(maxsize=256)
def _unify_forms(text: str) -> str:
    """Return a text with one form each for numbers, units and days of the year.

    "63m" and "63 metres" become 63 m, "seven" 7, "third" 3th, "April 9" and "9th of April" 9 9th april. A year behind
    "in" gets a mark, since it is no quantity.
    """
    text = _YEAR_ALONE.sub(r"\1\2ad", text.translate(_OTHER_CASES))
    text = _HAN_NUMBER.sub(_read_han, text)
    text = _COLUMN.sub(lambda cell: f"{cell['unit']}: {cell['value']} {cell['name']}", text)
    return _DAY.sub(_unify_day, _ORDINAL.sub(_unify_ordinal, _AMOUNT.sub(_unify_amount, text)))


def _unify_amount(match: re.Match[str]) -> str:
    unit, currency = match["unit"] or "", match["currency"] or ""
    if unit in ("M", "T", "G", "S", "H") and not (unit == "M" and currency):
        return match[0]
    if unit == "s" and match[0][-2].isdigit():
        return match[0]  # the 30s
    scale = _SCALE_FORMS[match["scale"].lower()] if match["scale"] else 1.0
    if currency and unit.lower() == "m":
        scale, unit = 1e6, ""
    figures = (match["figures"] or "").replace(",", "." if re.search(r",\d{1,2}\Z", match["figures"] or "") else "")
    figures = figures.replace(".", "") if figures.count(".") > 1 else figures
    if figures.isdigit() and scale == 1:
        number = figures
    else:
        word = (match["spelt"] or "").lower()
        value = scale * float(figures) if figures else _GERMAN.get(word) or spelt_value(word.replace(",", ""))
        number = f"{value:.6f}".rstrip("0").rstrip(".").replace(".", "dot")
    name = re.sub(r"[\s-]+", " ", (unit or currency).lower())
    name = _SPELLINGS.get(name, name)
    return f" {'neg' if match['minus'] else ''}{number} {name} "


def _unify_ordinal(match: re.Match[str]) -> str:
    tens = SMALL_NUMBERS[match[2].lower()] if match[2] else 0
    return f"{match[1] or int(tens) + _NTH[match[3].lower()]}th"


def _read_han(match: re.Match[str]) -> str:
    nth, numeral = ("第", match[0][1:]) if match[0][0] == "第" else ("", match[0])
    if not any(char in _HAN_SIZES for char in numeral):
        return nth + "".join(str(_HAN_DIGITS[char]) for char in numeral)
    total = part = digit = 0
    for char in numeral:
        size = _HAN_SIZES.get(char, 0)
        if size >= 10**4:
            total, part, digit = (total + part + digit) * size, 0, 0
        elif size:
            part, digit = part + (digit or 1) * size, 0
        else:
            digit = _HAN_DIGITS[char]
    return f"{nth}{total + part + digit}"


def _unify_day(match: re.Match[str]) -> str:
    day = int(match["d1"] or match["d2"] or match["d3"])
    month = int(match["m3"]) if match["m3"] else _DAY_MONTHS[(match["m1"] or match["m2"]).lower()]
    return f" {day} {day}th {MONTHS[month - 1].lower()} " if 1 <= day <= 31 and 1 <= month <= 12 else match[0]


_HEDGE = lazy_re(r"\s*(?:(?:about|around|approximately|roughly|circa|ca\.|the|a total of)\s+)+", re.IGNORECASE)
_UNIT_CODE = "(?:[a-z][A-Z]|[A-Z]{2})[A-Za-z]{0,4}"
_PURE = lazy_re(
    rf"(?:neg)?\d+(?:dot\d+)?(?:ad)?(?: (?:{'|'.join(set(_SPELLINGS.values()))}|{_UNIT_CODE}))?"
    r"|\d+ \d+th \w+(?: \d{4})?"
)
"""Only an amount, maybe of a unit that is not known, such as MWh or PLN."""
_POUNDS = {"lb": ("pound",), "gbp": ("pound",), "pound": ("lb", "gbp")}


@lru_cache(maxsize=256)
def _forms_of(answer: str) -> tuple[tuple[str, ...], bool]:
    """Return the unified forms of an answer, and whether it is only an amount."""
    hedge = _HEDGE.match(answer)
    text = answer[hedge.end() :] if hedge else answer
    unified = " ".join(_unify_forms(text).split())
    unified = "1" if unified.casefold() in ("one", "eins") else unified
    number, _, unit = unified.partition(" ")
    forms = [unified, *(f"{number} {other}" for other in _POUNDS.get(unit, ()))]
    if text.strip().casefold() == "one":
        forms.append("one")
    if unified == answer and len(unified) == 4 and unified.isdigit():
        forms.append(f"{unified}ad")
    return (tuple(forms) if any(map(str.isdigit, unified)) else ()), _PURE.fullmatch(unified) is not None


@lru_cache(maxsize=64)
def _words_of(text: str) -> str:
    """Return the words of a text, each between spaces."""
    return f" {join_words(text, lambda word: _WORD.findall(word.casefold()))} "


def _in_cells(form: str, text: str) -> bool:
    """Return whether a row of a table has a number, and its unit in another cell."""
    number, _, unit = form.casefold().partition(" ")
    rows = (line for line in text.split("\n") if unit and number in line and (";" in line or "|" in line))
    cells = (re.split("[;|]", row.casefold()) for row in rows)
    return any({number, unit} <= {cell.rpartition(": ")[2].strip() for cell in row} for row in cells)


def dates_within(answer: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield the spellings of an answer's date in texts."""
    # A date within a bare year contains that year, so the answer's own words find it.
    date = None if answer.isdigit() else read_date(answer)
    if date is None or date_spans(answer) != ((0, len(answer)),):
        return
    for text in texts:
        for start, end in date_spans(text):
            written = text[start:end]
            if (read := read_date(written)) and read.within(date):
                yield written


_LONE_LETTER = lazy_re(rf"\W*([^\W\d_{UNSPACED}])([+#]*)\W*")


@lru_cache(maxsize=64)
def _lone_letter(answer: str) -> re.Pattern[str] | None:
    """Return the pattern of an answer that is one letter, such as B or C++, else None.

    It matches neither an article nor part of a code or a number. The page's evidence.js has the same.
    """
    match = _LONE_LETTER.fullmatch(answer)
    if match is None:
        return None
    if signs := identifier_signs(answer[: match.end(1)].lstrip("\"'“„‘(`")):
        dashes = f"[-\u2010\u2011\u2212]{{{len(signs)}}}"
        sign = dashes if not signs.isascii() or signs[0] == "-" else re.escape(signs)
        return re.compile(rf"(?<![\w.\-\u2010\u2011\u2212]){sign}{match[1]}(?!\w)")
    letter, marks = match[1].upper(), re.escape(match[2])
    code = "" if marks else r"|[-/.]\w|\s?\d|['’]\w"
    alone = rf"(?<![\w.\-/]){letter}{marks}(?![\w+#]{code})"
    if marks or letter not in "AI":
        return re.compile(alone, re.IGNORECASE)
    return re.compile(rf"(?<=[\w,;:]\s){alone}(?!\s+[A-Z])|(?<=[\"“„'‘(\[]){letter}(?=[\"”“'’)\]])")


_WORDS_TOO = word_set("may march august polish turkey china us pole poles chad jordan guinea")
_APART = {"england": "english", "scotland": "scottish", "wales": "welsh", "northern ireland": "northern irish"}
_SHARED_NAMES = frozenset(("georgia", "jordan", "chad"))  # of other places and people
_DEMONYM = lazy_re(
    r"(?:an|i?sh|ese|ch|eek|iss|thai|[^a]i|ic|ot|ino|ina|ine|ene|croat|serb|ek|kh|ik|yz|ak|av|et|asy|rin)\Z"
)
_NO_NOUN = (
    "language|fries|horn|toast|descent|ancestry|origins?|heritage|roots|parents|immigrants?|extraction|family|word|name|"
    "translation|version|edition|remover|cuisine|food|restaurants?|literature|literary|speaking|speaker|tribes?|and|or|to|"
    "from|in|on|at|by|for|of|with|is|was|were|are|as|but|which|that"
)  # behind a demonym, words after which it is a language, an origin or a dish


@lru_cache(maxsize=64)
def _country_patterns(answer: str) -> tuple[re.Pattern[str], re.Pattern[str] | None] | None:
    """Return patterns of what states the same country, and what only makes it likely.

    A demonym before a noun states the country: "a Polish director". The country behind a preposition makes the demonym
    likely: "from Poland".
    """
    key = answer.strip(" .").casefold().removeprefix("the ")
    known = countries()
    if nation := next((pair for pair in _APART.items() if key in pair), None):
        names, demonyms = [nation[0]], [nation[1]]
    else:
        country = known.by_name.get(key, "")
        if not country or key in known.unclear or country in known.regions:
            return None
        apart = {*known.unclear, *_APART, *_APART.values()}
        spellings = [name for name, of in known.by_name.items() if of == country and name not in apart]
        demonyms = [name for name in spellings if name != country and _DEMONYM.search(name)]
        names = [name for name in spellings if name not in demonyms]
    noun, adjective = ("|".join(map(re.escape, map(_capitalised, group))) or r"(?!)" for group in (names, demonyms))
    before_noun = rf"(?:{adjective})(?=\s+[a-z])(?!\s+(?:{_NO_NOUN})\b)|(?<=ationality: )(?:{adjective})\b"
    if key not in demonyms:
        return re.compile(rf"(?<![\w–-])(?:(?:{noun})\b|{before_noun})(?![-–])"), None
    likely = rf"(?:\b(?:in|of|from)\s+(?:the\s+)?|,\s)(?:{noun})\b" if not _SHARED_NAMES & {*names} else r"(?!)"
    return re.compile(rf"(?<![\w–-])(?:{adjective})\b(?![-–])"), re.compile(likely)


def _capitalised(name: str) -> str:
    small, letters = ("and", "of", "the"), ("ussr", "dprk")
    words = (
        word if word in small else word.upper() if name in letters or "." in word or len(name) < 4 else word.title()
        for word in name.split()
    )
    return " ".join(words)


def _is_free(match: re.Match[str]) -> bool:
    """Return whether a match is no part of a name: "Dawn French", "Indian Ocean"."""
    before = match.string[max(0, match.start() - 24) : match.start()].split(" ")[-2:-1]
    behind = match.string[match.end() : match.end() + 2]
    alone = (
        not before or not before[0][:1].isupper() or before[0][-1:] in ".,;:!?" or before[0] in ("The", "A", "An", "In")
    )
    return alone and not (behind[:1] == " " and behind[1:].isupper())


def find_form(answer: str, text: str, *, likely: bool = False) -> str | None:
    """Return an answer if a text has an equal form, "" if not, None if words decide.

    The words of an amount alone prove nothing: "63" is none of 63.5. A letter is returned as the text writes it.
    `likely` counts what makes a demonym likely.
    """
    if letter := _lone_letter(answer):
        return fold_option_dashes(match[0]) if (match := letter.search(text)) else ""
    forms, only_amount = _forms_of(answer)
    if forms:
        unified = _unify_forms(text)
        held = _words_of(unified)
        if any(_words_of(form) in held or _in_cells(form, unified) for form in forms):
            return answer
        if only_amount:
            return ""
    if patterns := _country_patterns(answer):
        states, hints = patterns
        if any(map(_is_free, states.finditer(text))) or (likely and hints and hints.search(text)):
            return answer
    word = answer.strip(" .")
    if word.casefold() not in _WORDS_TOO or re.search(rf"\b(?:{word.capitalize()}|{word.upper()})\b", text):
        return None
    return ""
