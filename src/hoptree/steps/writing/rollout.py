"""A text that a model and its surroundings write by turns: each goes on from where the other ended."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.models.model import Choice, Message
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import Filled, plain
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.writing.actions import break_tags
from hoptree.values import Passage

__all__ = ["Rollout", "show_information"]

_WORDS_A_TOKEN = 0.75


class Rollout:
    """What was written so far, and how a model goes on with it.

    As `one_text`, it continues its own reply, in which what it is told and what it thought stand as in its training, if
    it can; else it is told in turns of a chat, as models want it that were trained for that.
    """

    def __init__(self, ctx: Context, prompt: Filled, *, one_text: bool) -> None:
        self._ctx, self._prompt, self._thoughts = ctx, prompt, one_text
        self._prefix = "prefix" in ctx.model_for("answer").capabilities
        self._one_text = one_text and self._prefix
        self._turns: list[Message] = []

    @property
    def text(self) -> str:
        return "\n\n".join(turn.content for turn in self._turns if turn.content)

    async def write(self, *, step: str, max_tokens: int, stop: tuple[str, ...], lead: str = "") -> str:
        """What the model writes next, which becomes a part of the text only with `keep`.

        It begins with `lead`, if it can be made to.
        """
        lead = lead if self._prefix else ""
        prompt, prefix = self._prompt, lead
        if self._one_text:
            prefix = f"{self.text}\n\n{lead}" if self.text else lead
        else:
            prompt = Filled((*prompt.messages, *self._turns), prompt.template)
        reply = await self._ctx.generate(step, prompt, max_tokens=max_tokens, prefix=prefix, stop=stop, part=True)
        return lead + self._whole(reply.choices[0])

    def keep(self, said: str, told: str) -> None:
        """Go on with what the model said, and with what it is told."""
        # Chat templates want something said in every turn.
        said = plain(said).strip() or ("" if self._one_text else "…")
        self._turns += [Message("assistant", said), Message("user", plain(told).strip())]

    def _whole(self, choice: Choice) -> str:
        said = choice.text.strip()
        return f"<think>{choice.reasoning}</think>\n{said}" if self._thoughts and choice.reasoning else said


def show_information(ctx: Context, passages: Sequence[Passage], *, titles: bool, tokens: int) -> str:
    """What a search found, in the tags that Search-R1 was trained with, of about `tokens` tokens at most."""
    left = round(_WORDS_A_TOKEN * tokens)
    lines: list[str] = []
    for number, passage in enumerate(passages, 1):
        words = show_passages(ctx, [passage], titles=titles).removeprefix("passage:").split()
        if len(words) > left:
            ctx.trace.add("truncated", passage=passage.id, words=len(words), kept=left)
        text, title = " ".join(words[:left]), " ".join(passage.title.split())
        if titles and text.startswith(f"{title}: "):
            text = f"(Title: {title}) {text.removeprefix(f'{title}: ')}"
        if text:
            lines.append(f"Doc {number}{text}" if text.startswith("(Title: ") else f"Doc {number}: {text}")
        left -= len(words[:left])
    return f"<information>{break_tags(chr(10).join(lines)) or 'Nothing was found.'}</information>"
