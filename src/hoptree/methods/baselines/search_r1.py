"""Search-R1: a model reasons, searches when it wants to, and answers in one text."""

from __future__ import annotations

from dataclasses import replace

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision, PassageTruncated, decision
from hoptree.engine.prompts import Filled, break_control_tokens, prompt_for, show_texts
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import note_reply, supporting_ids
from hoptree.models.model import Message
from hoptree.text.parse import question_key
from hoptree.text.parse_dialogue import read_answer
from hoptree.text.parse_method_replies import break_tags, read_action

_WORDS_PER_TOKEN = 0.75
_STOP = ("</search>", "</answer>", "<information>")
_INVALID = "previous action is invalid. It is either <search> query </search> or <answer> answer </answer>."
_REPEATED = "That was searched for before; what was found stands above. Search for what is still needed, or answer."
_NO_MORE = "There are no more searches. The answer has to be given now, between <answer> and </answer>."


@decision("action", shown_as="action")
class ActionTaken(Decision):
    """The model's action in a turn: search, answer or none, and its text."""

    value: str
    turn: int
    text: str


@decision("repeated_search", shown_as="searched before")
class SearchRepeated(Decision):
    """A repeated query, for which no search was made."""

    value: str
    turn: int


@method(
    "search_r1",
    title="Reasoning with a search engine",
    paper="Search-R1",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    query="What the model writes between its tags",
    trained=True,
    other_wording=True,
)
async def search_r1(
    question: Question,
    ctx: Context,
    *,
    turns: int = 4,
    k: int = 3,
    max_tokens: int = 500,
    information: int = 500,
    titles: bool = False,
    checkpoint: bool = False,
) -> Answer:
    """Let the model think, search by tags and read the results, until it gives its answer in tags.

    There are `turns` with a search each, and one last turn without; each of at most `max_tokens`, and what a search
    found is cut to about `information` tokens. A reply without a search or an answer gets an error message, and costs a
    turn. A text that continues after a search with invented results is cut there. Without `checkpoint`, any model is
    shown two examples and asked in the same loop, in turns of a chat that end with the question, and made to answer in
    the last one; a search that it repeats is not made again. That is ReAct more than Search-R1. With `checkpoint`, all
    is one text in the form of its training, tags, titles and line breaks, but asked for in other words than there; it
    may end without an answer. Always greedy, as the paper evaluates.
    """
    ctx.require_corpus()
    rollout = _Rollout(ctx, question.text, trained=checkpoint, max_tokens=max_tokens)
    read, searched = dict[str, Passage](), set[str]()
    for turn in range(turns + 1):
        last = turn == turns
        reply = await rollout.write("<answer>" if last and not checkpoint else "")
        action = read_action(reply)
        note_reply(ctx, "act", "neither a search nor an answer" if action.kind == "none" else "")
        ctx.emit(ActionTaken(value=action.kind, turn=turn, text=action.text))
        if last or action.kind == "answer":
            rollout.keep(action.within(reply), "")
            break
        result, apart = (f"My {_INVALID}", "\n") if checkpoint else (f"The {_INVALID}", "\n\n")
        if action.kind == "search" and not checkpoint and question_key(action.text) in searched:
            ctx.emit(SearchRepeated(value=action.text, turn=turn))
            result = _REPEATED
        elif action.kind == "search":
            searched.add(question_key(action.text))
            passages = await ctx.search(action.text, k=k)
            read |= {passage.id: passage for passage in passages}
            apart, result = "\n\n", _show_information(ctx, passages, titles=titles or checkpoint, tokens=information)
        if not checkpoint:
            result += (f"\n\n{_NO_MORE}" if turn + 1 == turns else "") + f"\n\nQuestion: {question.text}"
        rollout.keep(action.within(reply), result, apart)
    ctx.emit(ChainWritten(text=rollout.text))
    answer = read_answer(action.text if action.kind == "answer" else "")
    support = supporting_ids(answer.text, list(read.values())) if answer.known else ()
    return replace(answer, raw=rollout.text, source="external" if read else "internal", support=support)


class _Rollout:
    """The text so far, continued by a `trained` model, or as turns of a chat."""

    def __init__(self, ctx: Context, question: str, *, trained: bool, max_tokens: int) -> None:
        self._ctx, self._thoughts, self._max_tokens = ctx, trained, max_tokens
        self._prompt = prompt_for(ctx.method, "trained" if trained else "rollout").fill(question=question)
        self._prefix = "prefix" in ctx.model_for("answer").capabilities
        self._one_text, self._turns = trained and self._prefix, list[Message]()
        self._written = ""

    @property
    def text(self) -> str:
        return self._written.strip()

    async def write(self, lead: str) -> str:
        """Return the model's next words after `lead`; `keep` adds them to the text."""
        lead = lead if self._prefix else ""
        prefix = f"{self._written}{lead}" if self._one_text else lead
        turns = () if self._one_text else self._turns
        prompt = Filled((*self._prompt.messages, *turns), self._prompt.template)
        raw = await self._ctx.generate("act", prompt, max_tokens=self._max_tokens, prefix=prefix, stop=_STOP, part=True)
        choice = raw.choices[0]
        thoughts = f"<think>{choice.reasoning}</think>\n" if self._thoughts and choice.reasoning else ""
        return lead + thoughts + choice.text.strip()

    def keep(self, reply: str, result: str, apart: str = "") -> None:
        """Add a reply and its result to the text, separated by `apart`."""
        reply, result = break_control_tokens(reply).strip(), break_control_tokens(result).strip()
        reply = reply or ("" if self._one_text else "…")  # chat templates take no empty turns
        self._turns += [Message("assistant", reply), Message("user", result)]
        self._written += f"{reply}{apart}{result}{apart}"


def _show_information(ctx: Context, passages: tuple[Passage, ...], *, titles: bool, tokens: int) -> str:
    """Return passages in the tags of Search-R1's training, in about `tokens` tokens."""
    left, lines = round(_WORDS_PER_TOKEN * tokens), list[str]()
    for number, passage in enumerate(passages, 1):
        words = show_texts(ctx, [passage], titles=titles)[0].split()
        if len(words) > left:
            ctx.emit(PassageTruncated(passage=passage.id, words=len(words), kept=left))
        text, title = " ".join(words[:left]), " ".join(passage.title.split())
        if titles and text.startswith(f"{title}: "):
            text = f"(Title: {title}) {text.removeprefix(f'{title}: ')}"
        if text:
            lines.append(f"Doc {number}{text}" if text.startswith("(Title: ") else f"Doc {number}: {text}")
        left -= len(words[:left])
    return f"<information>{break_tags(chr(10).join(lines)) or 'Nothing was found.'}</information>"
