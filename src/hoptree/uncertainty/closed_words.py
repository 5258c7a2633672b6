"""The words of English that hold a sentence together: classes that hardly ever get a new member."""

from __future__ import annotations

__all__ = [
    "ACRONYMS",
    "ADVERBS",
    "AUXILIARIES",
    "CLOSED",
    "HAVE",
    "LY_CONTENT",
    "NAME_LIKE",
    "OWNED",
    "STRICT",
    "words_of",
]


def words_of(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


_DETERMINERS = words_of("the a an this that these those each every either neither some any no all both half another")
_PRONOUNS = words_of(
    "i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself "
    "we us our ours ourselves they them their theirs themselves who whom whose which what whoever whatever whichever "
    "someone somebody something anyone anybody anything everyone everybody everything nobody nothing none there"
)
_PREPOSITIONS = words_of(
    "of in on at by for from to into onto upon with within without about above across after against along alongside "
    "amid among amongst around as before behind below beneath beside besides between beyond despite down during except "
    "inside like near off opposite out outside over past per since than through throughout till toward towards under "
    "underneath unlike until up via versus vs"
)
_CONJUNCTIONS = words_of(
    "and or but nor so yet if because although though while whereas unless whether when where why how whenever "
    "wherever once lest that"
)
OWNED = words_of("a an the no his her its their my our your this that these those some any many several")
"""Words that begin what somebody has: before them "have" is a verb of its own."""
HAVE = words_of("have has had having")
"""Auxiliaries that are often verbs of their own: "he has two brothers"."""
_DO = words_of("do does did doing")
_BE = words_of("be am is are was were been being")
_MODALS = words_of("will would shall should can could may might must ought cannot")
AUXILIARIES = HAVE | _DO | _BE | _MODALS
_PARTICLES = words_of("not n't to 's")
ADVERBS = words_of(
    "also then now here again already always almost ago away back else even ever far forth further furthermore hence "
    "however indeed instead just later maybe meanwhile moreover much never nevertheless nonetheless nowadays often "
    "otherwise perhaps quite rather seldom so sometimes somewhat soon still such therefore thereby thereafter thus "
    "together too twice very well yet about longer sooner earlier only once more most less least abroad afterwards "
    "altogether anyway apart elsewhere everywhere likewise somewhere thereof today tomorrow tonight yesterday upstairs "
    "namely alike overall aside"
)
_ANSWERS = words_of("yes no oh ah well please okay ok")

STRICT = _DETERMINERS | _PRONOUNS | _PREPOSITIONS | _CONJUNCTIONS | _PARTICLES | _BE | HAVE | _DO | _ANSWERS
"""Words that are no content with a capital either: "in The Hague"."""
ACRONYMS = words_of("it us who")
"""Words that are something else in capitals: "the WHO"."""
NAME_LIKE = words_of("may will mark can")
"""Words that are a name or month where a capital stands inside a sentence, or a name or number follows."""
CLOSED = STRICT | AUXILIARIES | ADVERBS
LY_CONTENT = words_of(
    "family early daily weekly monthly yearly friendly lovely lonely likely unlikely elderly holy ugly silly deadly "
    "costly orderly scholarly worldly cowardly reply supply apply imply comply multiply rely fly ally rally "
    "bully belly jelly lily folly assembly anomaly monopoly butterfly homily melancholy panoply july italy"
)
"""Words in -ly that are nouns, verbs or adjectives; the others are adverbs."""
