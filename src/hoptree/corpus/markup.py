"""Read Markdown, reStructuredText, man pages and notebooks as text."""

from __future__ import annotations

import html
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from hoptree.corpus.contents import is_entry
from hoptree.corpus.document import Document, Problems, TextBuilder, join_lines, short, table_lines
from hoptree.corpus.files import read_text, stem, text_document, text_reader
from hoptree.corpus.references import heading_anchor, place_name, resolve_link
from hoptree.corpus.rst_tables import with_rows
from hoptree.text.names import word_set

_FRONT_LINES = 500
_QUOTED = re.compile(r"^([\"'])(.*)\1$", re.DOTALL)
_KEY = re.compile(r"([A-Za-z_][\w -]*):(?:[ \t]+(.*))?$")
_LINKED = r"\((?:<([^<>\n]{0,500})>|([^()<>\s]*(?:\([^()<>\s]*\)[^()<>\s]*)*))(?:\s+(?:\"[^\"]*\"|'[^']*'))?\)"
_LINK = re.compile(rf"!?\[([^\[\]]*)\](?:{_LINKED}|\[[^\[\]]*\])")
_TARGET = re.compile(rf"(?<!\!)\[([^\[\]]*)\]{_LINKED}")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_CODE = re.compile(r"\\([!-/:-@\[-`{-~])|(?<!`)(`+)(?!`)(.+?)(?<!`)\2(?!`)", re.DOTALL)
_STARS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]*[^\s*])\1(?![\w*])")
_UNDERSCORES = re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])([^_\n]*[^\s_])\1(?!\w)")
_TAG = re.compile(r"<((?:https?|mailto):[^<>\s]+)>|<!--[^<>]*-->|</?[A-Za-z][^<>]*>")
_KEPT = "\ue000"  # stands for code and escaped characters while marks are removed
_MAX_INLINE_CHARS = 100_000


def markdown_document(text: str, name: str) -> Document:
    """Make a document titled by front matter, heading or file name."""
    front, length = _front_matter(text)
    title = next((short(value) for key, value in front if key == "title"), "")
    builder = TextBuilder(title)
    content = text[length:].replace("\r", " ")  # which it would take for the end of a line
    _Blocks(builder, name).read(_parser().parse(content))
    return builder.document(
        name,
        stem(name),
        aliases=tuple(value for key, value in front if key in ("alias", "aliases")),
        metadata=tuple(pair for pair in front if pair[0] not in ("title", "alias", "aliases")),
    )


read_markdown = text_reader(markdown_document)


class _Blocks:
    """Takes the blocks of a Markdown text as paragraphs, headings and rows of tables."""

    def __init__(self, builder: TextBuilder, name: str) -> None:
        self._builder, self._name = builder, name
        self._rows: list[dict[int, str]] = []
        self._opening = self._tag = ""
        self._tight = False

    def read(self, tokens: Iterable[Token]) -> None:
        for token in tokens:
            if token.type == "inline":
                self._inline(token, token.content if len(token.content) > _MAX_INLINE_CHARS else _plain(token.content))
            elif token.type in ("fence", "code_block"):
                self._builder.add([token.content.strip("\n")])
            elif token.type == "tr_open":
                self._rows.append({})
            elif token.type == "table_close":
                self._builder.add(table_lines(self._rows))
                self._rows = []
            elif token.nesting > 0:
                self._opening, self._tag, self._tight = token.type, token.tag, token.hidden

    def _inline(self, token: Token, words: str) -> None:
        linked: list[str] = []
        for match in _TARGET.finditer(token.content[:_MAX_INLINE_CHARS]):
            if place := resolve_link(match[2] or match[3] or "", self._name):
                self._builder.refer(place)
                linked.append(_plain(match[1]))
        if self._opening in ("th_open", "td_open") and self._rows:
            self._rows[-1][len(self._rows[-1])] = words
        elif self._opening == "heading_open" and token.level == 1 and "\n" not in token.content:
            self._builder.heading(int(self._tag[1:]), words)
            self._builder.anchor(place_name(self._name, heading_anchor(words)))
        else:
            entries = len(linked) if linked and "\n" not in words and is_entry(words, linked) else 0
            self._builder.add([join_lines(words)], tight=self._tight, entries=entries)


def _plain(text: str) -> str:
    """Return the words of a Markdown line without markup."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[1] or match[3].strip())
        return _KEPT

    text = _CODE.sub(keep, text.replace(_KEPT, " "))
    while (shorter := _LINK.sub(r"\1", text)) != text:  # an image may be in a link
        text = shorter
    text = _TAG.sub(lambda tag: tag[1] or "", text)
    for _ in range(2):  # emphasis in emphasis
        text = _UNDERSCORES.sub(r"\2", _STARS.sub(r"\2", text))
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]).replace(_KEPT, " "), text)
    pieces = iter(kept)
    return re.sub(_KEPT, lambda _: next(pieces), text) if kept else text


@cache
def _parser() -> MarkdownIt:
    """Return a parser of blocks; headings may follow HTML directly."""
    parser = MarkdownIt("commonmark").enable("table").disable(["html_block", "reference"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _front_matter(text: str) -> tuple[list[tuple[str, str]], int]:
    """Read front matter, and return its keys and length.

    Plain values, [lists, in brackets] and lists with dashes are read. A block with anything else at its left margin
    is no front matter. YAML would refuse what people write, such as a title with a colon.
    """
    pairs: list[tuple[str, str]] = []
    key = ""
    length = 0
    for number, line in enumerate(io.StringIO(text, newline="\n")):
        length += len(line)
        bare = line.rstrip()
        if number == 0:
            if bare != "---":
                break
        elif bare in ("---", "..."):
            return pairs, length
        elif number > _FRONT_LINES:
            break
        elif match := _KEY.match(bare):
            key = match[1].strip().lower()
            pairs += [(key, value) for value in _front_values(match[2] or "")]
        elif key and bare.lstrip().startswith("- "):
            pairs += [(key, value) for value in _front_values(bare.lstrip()[2:])]
        elif bare and not bare.startswith((" ", "\t", "#", "- ")):
            break
    return [], 0


def _front_values(text: str) -> list[str]:
    text = text.strip()
    items = text[1:-1].split(",") if text.startswith("[") and text.endswith("]") else [text]
    values = (_QUOTED.sub(r"\2", item.strip()) for item in items)
    return [value for value in values if value and value not in ("|", ">", "null", "~")]


_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*$")
_DIRECTIVE = re.compile(r"(\s*)\.\.(?: ([\w:-]+)::)?(?: (.*))?$")
_FOOTNOTE = re.compile(r"(\s*)\.\. (\[[^\[\]]{1,100}\]\s.*)$")
_OPTION = re.compile(r"\s+:[\w-]+:(\s|$)")
_VERSIONS = word_set("versionadded versionchanged versionremoved deprecated")
_WITHOUT_ARGUMENT = word_set(
    "code-block code sourcecode highlight image figure include literalinclude index toctree raw"
)
_ROLE = re.compile(r"(?::[\w:+.-]+:)?`~?([^`<>]*?)(?:\s*<[^`<>]*>)?`_{0,2}")
_LITERAL = re.compile(r"``(.+?)``")
_LABEL = re.compile(r"\s*\.\. _`?([^`:]{1,100})`?:\s*$")
_REFERENCE = re.compile(r":(ref|numref|doc):`(?:[^`<>]*<)?([^`<>]{1,200})>?`")
_LABELLED = "label:"  # before the label of a place, which is one for all files


def rst_document(text: str, name: str) -> Document:
    """Make a document of reStructuredText: titles and directives' content."""
    builder = TextBuilder()
    levels: list[str] = []  # the adornments of titles, from the highest level on
    paragraph: list[str] = []
    dropped = -1  # the indentation of a comment or a list of files, which ends where a line is indented no more than it
    options = False  # whether the line above is a directive, or an option of one
    lines = list(with_rows(text.split("\n")))
    for at, line in enumerate(lines):
        may_be_option, options = options, False
        indent = len(line) - len(line.lstrip())
        below = lines[at + 1] if at + 1 < len(lines) else ""
        above = lines[at - 1] if at else ""
        if dropped >= 0 and (not line.strip() or indent > dropped):
            continue
        dropped = -1
        if _ADORNMENT.match(line):
            continue
        if not line.strip():
            builder.add([join_lines("\n".join(paragraph))])
            paragraph.clear()
        elif label := _LABEL.match(line):
            builder.anchor(f"{_LABELLED}{' '.join(label[1].casefold().split())}")
        elif footnote := _FOOTNOTE.match(line):
            builder.add([join_lines("\n".join(paragraph))])
            paragraph[:] = [_plain_rst(footnote[2])]
        elif (match := _DIRECTIVE.match(line)) and not _ADORNMENT.match(below):
            kind, argument, options = match[2], match[3] or "", True
            if kind is None or kind in ("toctree", "index", "raw"):
                dropped = indent
            elif kind not in _WITHOUT_ARGUMENT:
                paragraph.append(f"{kind}: {argument}" if kind in _VERSIONS else _plain_rst(argument))
        elif _ADORNMENT.match(below) and len(below.rstrip()) >= len(line.strip()) * 0.9 and not paragraph:
            style = below[0] * (2 if above[:1] == below[0] and _ADORNMENT.match(above) else 1)
            if style not in levels:
                levels.append(style)
            builder.heading(levels.index(style) + 1, _plain_rst(line.strip()))
        elif may_be_option and _OPTION.match(line):
            options = True
        else:
            for role, target in _REFERENCE.findall(line):
                builder.refer(_rst_place(role, target, name))
            paragraph.append(_plain_rst(line))
    builder.add([join_lines("\n".join(paragraph))])
    return builder.document(name, stem(name))


read_rst = text_reader(rst_document)


def _rst_place(role: str, target: str, name: str) -> str:
    """Return where a role leads: to a label of any file, or to a document."""
    if role != "doc":
        return f"{_LABELLED}{' '.join(target.casefold().split())}"
    place = resolve_link(target.lstrip("/"), "" if target.startswith("/") else name)
    suffix = ".rst.txt" if name.endswith(".rst.txt") else PurePosixPath(name).suffix
    return f"{place}{suffix}" if place else ""


def _plain_rst(line: str) -> str:
    line = _ROLE.sub(r"\1", _LITERAL.sub(r"\1", line))
    line = _STARS.sub(r"\2", line)
    return f"{line.rstrip()[:-1]}" if line.rstrip().endswith("::") else line


_ROFF_HEAD_CHARS = 20_000
_ROFF = re.compile(r"\s*[.'](?:.|\n)*?^\.(?:TH|Dd|SH|Sh|so)\s", re.MULTILINE)
_ROFF_TITLE = re.compile(r"^\.(?:TH|Dt)[ \t]+(.*)$", re.MULTILINE)
_REQUEST = re.compile(r"[.'][ \t]*([A-Za-z][\w-]*)?(.*)$")
_FOR_TERMINALS = re.compile(r"[.']\s*i[ef]\s+n\s+(?=\.)")
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
_PARAGRAPHS = word_set("PP LP P sp Sp Pp IP TP TQ HP RS RE nf fi EX EE Vb Ve Bl El Bd Ed It Dl D1 TS TE SY YS")
_WORDS = frozenset(("B", "I", "SM", "SB", "UR", "UE", "MT", "ME", "URL", "MTO"))
_ALTERNATING = frozenset(("BR", "RB", "IR", "RI", "BI", "IB"))
_MDOC = word_set(
    "Ad An Ar Cd Cm Dv Em Er Ev Fa Fl Fn Ic Li Nm No Ns Op Pa Pf Ql Qq Dq Sq Sy Tn Va Vt Xr Oo Oc Ao Ac Bo Bc Po "
    "Pc Xo Xc Lk Mt Aq Pq Bq Brq Fx Nx Ox Bx Ux At St In Ft Fo Fc Fd Nd Dl D1 It Ms Bsx Dx Do Dc So Sc Qo Qc"
)


def plain_document(text: str, name: str) -> Document:
    """Make a document of a text as it is, unless it is a man page."""
    return (roff_document if _ROFF.match(text[:_ROFF_HEAD_CHARS]) else text_document)(text, name)


read_plain = text_reader(plain_document)


def roff_document(text: str, name: str) -> Document:
    """Make a document of a man page, in macros of man or mdoc."""
    head = _ROFF_TITLE.search(text)
    names = [_plain_roff(word) for word in _arguments(head[1])[:2]] if head else []
    page = _ManPage(TextBuilder(f"{names[0]}({names[1]})" if len(names) > 1 else "".join(names)))
    for line in re.sub(r"(?<!\\)\\\n", "", text).split("\n"):
        page.read(_ROFF_COMMENT.sub("", line))
    page.end_paragraph()
    return page.builder.document(name, stem(name))


class _ManPage:
    """Takes the lines of a man page."""

    def __init__(self, builder: TextBuilder) -> None:
        self.builder = builder
        self._paragraph: list[str] = []
        self._gap = " "
        self._name = ""
        self._heading = 0  # the level of a heading that stands in the next line
        self._filled = True
        self._tagged = self._in_definition = self._in_format = False

    def read(self, line: str) -> None:
        line = _FOR_TERMINALS.sub("", line)
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
        if gap == " " and self._paragraph and not join_lines(f"{self._paragraph[-1][-1]}\n{words[0]}")[2:]:
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
        elif macro in _PARAGRAPHS:
            self.end_paragraph()
            self._filled = macro not in ("nf", "EX", "Vb", "TS") and (macro != "Bd" or "-filled" in rest)
            self._in_format = macro == "TS"
            self._tagged = macro in ("IP", "TP", "TQ", "HP", "It")
            if macro == "IP" and (arguments := _arguments(rest)[:1]):
                self._add(_plain_roff(arguments[0]))
        if macro in _MDOC:
            words = _arguments(rest)
            if macro == "Nm":
                words = words or [self._name]
                self._name = self._name or words[0]
            self._add(_plain_roff(_mdoc_words(macro, ["-", *words] if macro == "Nd" else words)))
        elif (macro in _WORDS or macro in _ALTERNATING) and (arguments := _arguments(rest)):
            self._add(_plain_roff(("" if macro in _ALTERNATING else " ").join(arguments)))


def _arguments(rest: str) -> list[str]:
    return [bare or quoted.replace('""', '"') for quoted, bare in _ARGUMENT.findall(rest)]


def _mdoc_words(macro: str, words: list[str]) -> str:
    """Join the words of a line of mdoc, in which some are macros."""
    line, glued, page = "", True, False
    for word in (macro, *words):
        if word == "Ns":
            glued = True
        elif word in _MDOC:
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
    """Return the characters that an escape of roff stands for."""
    if match["char"] is not None:
        return _ROFF_CHARS.get(match["char"], "")
    if string := match["string"]:
        return _ROFF_STRINGS.get(string.strip("[]").removeprefix("("), "")
    name = match["pair"] or match["long"] or ""
    if re.fullmatch(r"u[0-9A-F]{4,5}", name):
        return chr(int(name[1:], 16)).encode("utf-8", "ignore").decode()  # no surrogate
    if len(name) == 2 and name not in _ROFF_NAMES and name[0] in _ACCENTS and name[1].isalpha():
        return unicodedata.normalize("NFC", name[1] + _ACCENTS[name[0]])
    return _ROFF_NAMES.get(name, "")


_MAX_OUTPUT_CHARS = 2_000


def read_notebook(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Read the cells of a Jupyter notebook and the text of their outputs."""
    text = read_text(stream, name, problems)
    if not text or text.isspace():
        return
    builder = TextBuilder()
    try:
        notebook = json.loads(text)
        for cell in notebook.get("cells") or notebook["worksheets"][0]["cells"]:
            source = _joined(cell.get("source", cell.get("input", "")))
            if cell["cell_type"] == "markdown":
                _Blocks(builder, name).read(_parser().parse(source))
            else:
                shown = (
                    out.get("text") or out.get("data", {}).get("text/plain", "") for out in cell.get("outputs", ())
                )
                builder.add([source, *(_joined(output)[:_MAX_OUTPUT_CHARS] for output in list(shown))])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        sentence = f"{name} cannot be read as a notebook: it is damaged, or of another kind."
        problems.add("damaged documents", sentence, cuts=True)
        return
    yield builder.document(name, stem(name))


def _joined(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
