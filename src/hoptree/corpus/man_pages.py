"""Read man pages, and plain texts, which may be man pages."""

from __future__ import annotations

import re
import unicodedata

from hoptree.corpus.document import Document, TextBuilder, join_lines
from hoptree.corpus.files import stem, text_document, text_reader
from hoptree.text.names import word_set

_ROFF_HEAD_CHARS = 20_000
_ROFF = re.compile(r"\s*[.'](?:.|\n)*?^\.(?:TH|Dd|SH|Sh|so)\s", re.MULTILINE)
_ROFF_TITLE = re.compile(r"^\.(?:TH|Dt)[ \t]+(.*)$", re.MULTILINE)
_REQUEST = re.compile(r"[.'][ \t]*([A-Za-z][\w-]*)?(.*)$")
_TERMINAL_CONDITION = re.compile(r"[.']\s*i[ef]\s+n\s+(?=\.)")
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\.|\S)+)')
_ROFF_COMMENT = re.compile(r'(?<!\\)\\["#].*')
_ROFF_ESCAPE = re.compile(
    r"""\\(?:\((?P<pair>..)|\[(?P<long>[^\]\n]{0,40})\]
    |\*(?P<string>\(..|\[[^\]\n]{0,40}\]|.)
    |[fFmMgnkYV](?:\(..|\[[^\]\n]{0,40}\]|[+-]?.)
    |s(?:\[[^\]\n]{0,40}\]|[+-]?\(..|[+-]?\d)
    |[hvwlLDoXbAZSRNHxB]'[^'\n]{0,200}'
    |(?P<char>.)|$)""",
    re.VERBOSE,
)
_ROFF_PAIRS = (
    "co=© rg=® tm=™ bu=• aq=' dq=\" hy=- em=— en=– lq=“ rq=” oq=‘ cq=’ Fo=« Fc=» fo=‹ fc=› Bq=„ bq=‚ ga=` ha=^ "
    "ti=~ rs=\\ at=@ sh=# Do=$ mu=× di=÷ +-=± de=° ->=→ <-=← mc=µ sc=§ eu=€ Eu=€ Po=£ Ye=¥ ct=¢ pc=· ss=ß /o=ø "
    "/O=Ø AE=Æ ae=æ OE=Œ oe=œ /l=ł /L=Ł .i=ı ul=_ ba=| or=| lB=[ rB=] lC={ rC=} la=⟨ ra=⟩ sl=/ dg=† 12=½ 14=¼ "
    "34=¾ r!=¡ r?=¿ mi=− pl=+ *m=µ -D=Ð Sd=ð TP=Þ Tp=þ"
)
_ROFF_NAMES = dict(pair.split("=") for pair in _ROFF_PAIRS.split()) | {"<=": "≤", ">=": "≥", "!=": "≠", "eq": "="}
_ROFF_STRINGS = {"Aq": "'", 'L"': '"', 'R"': '"', "C`": "", "C'": "", "--": "-"}
_ROFF_STRINGS |= {"lq": "“", "rq": "”", "R": "®", "Tm": "™"}
_ACCENTS = {":": "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", ",": "\u0327", "v": "\u030c"}
_ACCENTS |= {"o": "\u030a"}
_ROFF_CHARS = {"-": "-", "e": "\\", "\\": "\\", " ": " ", "~": " ", "0": " ", "t": " ", ".": ".", "'": "'", "`": "`"}
_PARAGRAPH_MACROS = word_set("PP LP P sp Sp Pp IP TP TQ HP RS RE nf fi EX EE Vb Ve Bl El Bd Ed It Dl D1 TS TE SY YS")
_FONTS = word_set("B I SM SB UR UE MT ME URL MTO")
_ALTERNATING_FONTS = word_set("BR RB IR RI BI IB")
_MDOC_MACROS = word_set(
    "Ad An Ar Cd Cm Dv Em Er Ev Fa Fl Fn Ic Li Nm No Ns Op Pa Pf Ql Qq Dq Sq Sy Tn Va Vt Xr Oo Oc Ao Ac Bo Bc Po "
    "Pc Xo Xc Lk Mt Aq Pq Bq Brq Fx Nx Ox Bx Ux At St In Ft Fo Fc Fd Nd Dl D1 It Ms Bsx Dx Do Dc So Sc Qo Qc"
)


def is_roff(text: str) -> bool:
    """Return whether a text is the source of a man page."""
    return bool(_ROFF.match(text[:_ROFF_HEAD_CHARS]))


def plain_document(text: str, name: str) -> Document:
    """Make a document of a man page, or of any other text as it is."""
    return (roff_document if is_roff(text) else text_document)(text, name)


read_plain = text_reader(plain_document)


def roff_document(text: str, name: str) -> Document:
    """Make a document of a man page with the macros of man or mdoc."""
    head = _ROFF_TITLE.search(text)
    names = [_plain_roff(word) for word in _arguments(head[1])[:2]] if head else []
    page = _ManPage(TextBuilder(f"{names[0]}({names[1]})" if len(names) > 1 else "".join(names)))
    for line in re.sub(r"(?<!\\)\\\n", "", text).split("\n"):
        page.read(_ROFF_COMMENT.sub("", line))
    page.end_paragraph()
    return page.builder.document(name, stem(name))


class _ManPage:
    """Adds the lines of a man page to a builder, as paragraphs and headings."""

    def __init__(self, builder: TextBuilder) -> None:
        self.builder = builder
        self._paragraph: list[str] = []
        self._gap = " "
        self._name = ""
        self._heading = 0  # the level of the heading that the next line has
        self._filled = True
        self._tagged = self._in_definition = self._in_format = False

    def read(self, line: str) -> None:
        line = _TERMINAL_CONDITION.sub("", line)
        if self._in_definition:
            self._in_definition = line.replace(" ", "") != ".."
        elif line.startswith((".", "'")):
            if (match := _REQUEST.match(line)) and match[1]:
                self._request(match[1], match[2])
        elif self._in_format:
            self._in_format = not line.rstrip().endswith(".")
        else:
            self._add(_plain_roff(line.replace("T{", "").replace("T}", "")))

    def end_paragraph(self) -> None:
        self.builder.add(["".join(self._paragraph).strip("\n")])
        self._paragraph.clear()
        self._gap = " "

    def _add(self, words: str) -> None:
        if self._heading:
            self.builder.heading(self._heading, words)
            self._heading = 0
            return
        if not words.strip():
            if self._filled:
                self.end_paragraph()
            elif self._paragraph:
                self._paragraph.append("\n")
            return
        words = " ".join(words.split()) if self._filled else words.rstrip()
        gap = self._gap if self._filled else "\n"
        if gap == " " and self._paragraph and "\n" not in join_lines(f"{self._paragraph[-1][-1]}\n{words[0]}"):
            gap = ""
        self._paragraph += [gap] * bool(self._paragraph) + [words]
        self._gap = "\n" if self._tagged else " "
        self._tagged = False

    def _request(self, macro: str, rest: str) -> None:
        if macro in ("de", "de1", "am", "ig"):
            self._in_definition = True
        elif macro in ("SH", "Sh", "SS", "Ss"):
            self.end_paragraph()
            self._filled, self._heading = True, 2 if macro[1] in "Hh" else 3
            if rest.strip():
                self._add(_plain_roff(" ".join(_arguments(rest))))
        elif macro == "br":
            self._gap = "\n"
        elif macro in _PARAGRAPH_MACROS:
            self.end_paragraph()
            self._filled = macro not in ("nf", "EX", "Vb", "TS") and (macro != "Bd" or "-filled" in rest)
            self._in_format = macro == "TS"
            self._tagged = macro in ("IP", "TP", "TQ", "HP", "It")
            if macro == "IP" and (arguments := _arguments(rest)[:1]):
                self._add(_plain_roff(arguments[0]))
        if macro in _MDOC_MACROS:
            words = _arguments(rest)
            if macro == "Nm":
                words = words or [self._name]
                self._name = self._name or words[0]
            self._add(_plain_roff(_mdoc_words(macro, ["-", *words] if macro == "Nd" else words)))
        elif (macro in _FONTS or macro in _ALTERNATING_FONTS) and (arguments := _arguments(rest)):
            self._add(_plain_roff(("" if macro in _ALTERNATING_FONTS else " ").join(arguments)))


def _arguments(rest: str) -> list[str]:
    """Split the arguments of a macro; quoted ones may have spaces."""
    return [bare or quoted.replace('""', '"') for quoted, bare in _ARGUMENT.findall(rest)]


def _mdoc_words(macro: str, words: list[str]) -> str:
    """Join the words of a line of mdoc; some of them are macros."""
    line, glued, page = "", True, False
    for word in (macro, *words):
        if word == "Ns":
            glued = True
        elif word in _MDOC_MACROS:
            line += ("" if glued else " ") + "-" if word == "Fl" else ""
            glued, page = glued or word == "Fl", word == "Xr"
        elif page and word.isalnum() and line and not glued and len(word) < 4 and word[0].isdigit():
            line, page = f"{line}({word})", False
        else:
            line += word if glued or re.fullmatch(r"[.,:;)\]?!]", word) else f" {word}"
            glued = word in ("(", "[")
    return line


def _plain_roff(line: str) -> str:
    return _ROFF_ESCAPE.sub(_escaped, line) if "\\" in line else line


def _escaped(match: re.Match[str]) -> str:
    """Return the characters of a roff escape."""
    if match["char"] is not None:
        return _ROFF_CHARS.get(match["char"], "")
    if string := match["string"]:
        return _ROFF_STRINGS.get(string.strip("[]").removeprefix("("), "")
    name = match["pair"] or match["long"] or ""
    if re.fullmatch(r"u[0-9A-F]{4,5}", name):
        return chr(int(name[1:], 16)).encode("utf-8", "ignore").decode()  # drops surrogates
    if len(name) == 2 and name not in _ROFF_NAMES and name[0] in _ACCENTS and name[1].isalpha():
        return unicodedata.normalize("NFC", name[1] + _ACCENTS[name[0]])
    return _ROFF_NAMES.get(name, "")
