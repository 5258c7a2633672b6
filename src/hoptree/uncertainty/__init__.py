"""What a model's own doubts say: from the signals of tokens to words, sentences, names, triggers and queries.

Pure functions over tokens with log-probability, entropy and attention; MIND, DRAGIN, FLARE and SeaKR are made of them.
Nothing here raises for what a model wrote: what is unknown, NaN or empty triggers nothing. Only a probability that is
no number counts as 0.
"""

from hoptree.uncertainty.entities import NEUTRAL, confidence, entity_confidence, mentions
from hoptree.uncertainty.naming import NameTagger, begins_ordinarily
from hoptree.uncertainty.queries import attended_query, content_query, masked_query, sure_query
from hoptree.uncertainty.scores import ScoredWord, score_words
from hoptree.uncertainty.spans import Span, token_spans
from hoptree.uncertainty.spread import least_spread, shortest, spread
from hoptree.uncertainty.tagging import LexiconTagger, SpacyTagger, Tagger, content_words, open_tagger
from hoptree.uncertainty.triggers import Dynamic, Fixed, Sentence, Threshold, improbable_sentence, judge_sentences
from hoptree.uncertainty.words import Word, find_words, word_spans

__all__ = [
    "NEUTRAL",
    "Dynamic",
    "Fixed",
    "LexiconTagger",
    "NameTagger",
    "ScoredWord",
    "Sentence",
    "SpacyTagger",
    "Span",
    "Tagger",
    "Threshold",
    "Word",
    "attended_query",
    "begins_ordinarily",
    "confidence",
    "content_query",
    "content_words",
    "entity_confidence",
    "find_words",
    "improbable_sentence",
    "judge_sentences",
    "least_spread",
    "masked_query",
    "mentions",
    "open_tagger",
    "score_words",
    "shortest",
    "spread",
    "sure_query",
    "token_spans",
    "word_spans",
]
