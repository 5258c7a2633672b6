"""Training rows for hop from gold data: readings and plans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from hoptree.core.values import Passage
from hoptree.engine.prompts import Filled, prompt_for, show_passages
from hoptree.evaluation.datasets.rows import read_question_rows
from hoptree.evaluation.metrics import best_overlap, contains, normalise
from hoptree.methods.hop.reading import TRAINED_GUESS_PROMPT
from hoptree.methods.steps.answer import MAX_FURTHER_PASSAGES
from hoptree.text.comparison_plans import plan_comparison
from hoptree.text.parse import find_refusal
from hoptree.text.question_tree import Plan, make_plan
from hoptree.training.chat_rows import ChatRow, MadeRows, Progress, RowJournal, make_row, put_together
from hoptree.training.formats import SetSpec
from hoptree.training.hop_passages import (
    ADDITION,
    WIDE,
    Evidence,
    HopPassages,
    cut_answer,
    find_closest,
    find_evidence,
    only_few,
    untold_question,
    with_gold,
    without_answers,
)
from hoptree.training.labelled_passages import CLOSED_ANSWERS, drawn
from hoptree.training.leakage import file_digest
from hoptree.training.plans.gold_trees import (
    GoldStep,
    GoldTree,
    facts_alone,
    gold_tree,
    packaged_plans,
    with_written_steps,
    write_plan,
)
from hoptree.training.plans.sub_questions import LeftOut, is_named
from hoptree.training.questions import TrainingQuestion

METHOD = "hop"
NOT_FOUND = "NOT FOUND"
NO_PLAN = "{}"
SENTENCE = "\nSentence: "
READ, NONE, LAST, GUESS = "read", "not found", "last reading", "guess"
PLAN, SIMPLE = "plan", "no plan"
_NO_GOLD = "no reading of the question, as gold passages are not in the corpus"
_ONE_FACT_SETS = ("webquestions",)  # questions for one fact each, without a number of hops
_MAX_SIMPLE_WORDS = 16
_PLACEHOLDER = "{}"
_MAX_ANSWER_WORDS = 20
_NOT_FOUND_PERCENT, _CUT_PERCENT, _SIMPLE_STEP_PERCENT, _SHORT_CHAIN_PERCENT, _FEW_PERCENT = 65, 40, 10, 20, 15
_OWN_PERCENT, _UNANSWERED_PERCENT, _UNTOLD_PERCENT, _GUESS_PERCENT = 80, 25, 50, 25
_ABOUT_PERSON = re.compile(r"\b(?:born|die|died|nationality|citizenship|birth|death)\b")
_UNFIT_WORDS = "dates of birth and death"  # in plans of comparisons that are not about people
_COMMON_VALUES = ("country", "nationality", "citizen", "language", "gender", "occupation")
"""Answers to questions with these words vary: a passage may state one in other words."""


async def make_hop(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make rows from each question's known plan, steps and gold passages."""
    plans, sentences = packaged_plans(), _gold_sentences(spec.data)
    left_out: Counter[str] = Counter()
    rows: list[ChatRow] = []
    async with AsyncExitStack() as stack:
        finders: dict[str, HopPassages] = {}
        for name, corpus in spec.corpora.items():
            finders[name] = HopPassages(corpus, spec.retriever, rerank=spec.rerank, k=spec.k)
            stack.push_async_callback(finders[name].aclose)
        identity = [f"{name}: {finder.identity}" for name, finder in finders.items()]
        journal = RowJournal(spec.out, METHOD, [spec.k, *identity, *map(file_digest, spec.data)])
        stack.callback(journal.close)
        for done, question in enumerate(with_written_steps(questions), 1):
            question_rows = journal.get(question.key)
            if question_rows is None:
                of_set = finders.get(question.example.dataset) or finders.get("")
                maker = _RowMaker(question, of_set, sentences.get((question.file, question.example.id), ()))
                question_rows = MadeRows(tuple(await maker.rows(plans.get(question.key))), dict(maker.left_out), {})
                await journal.add(question.key, question_rows)
            rows += question_rows.rows
            left_out.update(question_rows.left_out)
            on_progress(done, len(questions))
    mixed, dropped = put_together(rows, spec.rows, spec.seed or 0)
    left_out.update(dropped)
    report = {"corpora": {name: finder.identity for name, finder in finders.items()}, "k": spec.k}
    return MadeRows(tuple(mixed), dict(+left_out), report)


def _gold_sentences(paths: Sequence[Path]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the gold sentences of rows that have them, by file and id."""
    by_id = {}
    for path in paths:
        for _, row in read_question_rows(path):
            sentences = row.get("supporting_sentences") if isinstance(row, dict) else None
            if isinstance(sentences, list):
                by_id[str(path), str(row.get("id"))] = tuple(text for text in sentences if isinstance(text, str))
    return by_id


class _RowMaker:
    """Makes the rows of one question."""

    def __init__(self, question: TrainingQuestion, finder: HopPassages | None, sentences: Sequence[str]) -> None:
        self._question, self._finder, self._sentences = question, finder, sentences
        self._text = question.example.question
        self._main: tuple[Passage, ...] = ()  # what a search for the question itself finds
        self._gold: dict[int, Passage] = {}
        self._evidence: dict[int, Evidence] = {}
        self.left_out: Counter[str] = Counter()

    async def rows(self, by_hand: Mapping[str, Any] | None) -> list[ChatRow]:
        example = self._question.example
        simple = example.hops == 1 or example.dataset in _ONE_FACT_SETS
        tree = None
        try:
            tree = None if simple else gold_tree(self._question)
        except LeftOut as why:
            self._leave_out(f"no steps for {why}")
        rows = self._plan(tree, by_hand, simple=simple)
        steps = tree.steps if tree and self._fits_facts(tree) else {}
        alone = [] if simple or steps else facts_alone(self._question)
        if self._finder:
            self._main = await self._finder.search(self._text)
            if gold := await self._gold_passages(self._finder):
                rare = not steps and not alone and (not simple or not example.supporting_ids)  # few have a gold page
                rows += await self._whole(self._finder, gold, often=rare)
            elif example.supporting_ids:
                self._leave_out(_NO_GOLD)
            if example.answers and self._drawn("guess") < _GUESS_PERCENT:
                rows += self._guess()
            for step in (*steps.values(), *alone):
                references = [steps[ref] for ref in tree.read[step.id].refs] if tree and steps else []
                rows += await self._part(self._finder, step, references)
            if tree and steps:
                rows += self._last(tree, self._finder.k)
        return rows

    def _fits_facts(self, tree: GoldTree) -> bool:
        """Return whether each step is about the subject of its fact."""
        subjects = [ADDITION.sub("", fact[0]) for fact in self._question.facts]
        if len(subjects) != len(tree.steps):
            return True
        for step in tree.steps.values():
            named = [subject for subject in subjects if is_named(subject, step.asked)]
            if named and subjects[step.place] not in named:
                self._leave_out("steps without answers, as their facts are in another order")
                return False
        return True

    def _leave_out(self, why: str) -> list[ChatRow]:
        self.left_out[f"{self._question.example.dataset}: {why}"] += 1
        return []

    def _drawn(self, what: str) -> int:
        """Return a number from 0 to 99 derived from the question and the purpose."""
        return drawn(f"{self._question.key}/{what}") * 100 // 256

    def _row(self, part: str, prompt: Filled, target: str, label: str, made_from: str) -> ChatRow:
        meta = {"made_from": made_from, "template": prompt.template}
        return make_row(self._question, f"{METHOD}/{part}", prompt.messages, target, label, meta)

    def _reading(
        self,
        part: str,
        asked: str,
        passages: Sequence[Passage],
        target: str,
        label: str,
        made_from: str,
        chains: Sequence[str] = (),
    ) -> list[ChatRow]:
        documents = "\n".join([*chains, show_passages(None, passages, titles=True)])
        answer, _, sentence = target.partition(SENTENCE)
        if target != NOT_FOUND and sentence not in documents:
            return self._leave_out("a sentence that is not shown as it stands")
        if target != NOT_FOUND and find_refusal(answer):
            return self._leave_out("an answer that would be read as another")
        prompt = prompt_for(METHOD, "trained_read").fill(documents=documents, question=asked)
        return [self._row(part, prompt, target, label, made_from)]

    # Plans

    def _plan(self, tree: GoldTree | None, by_hand: Mapping[str, Any] | None, *, simple: bool) -> list[ChatRow]:
        if simple and len(self._text.split()) > _MAX_SIMPLE_WORDS:
            return self._leave_out("no plan for a question of many words")
        if simple:
            return [self._row("plan", plan_prompt(self._text), NO_PLAN, SIMPLE, "one hop")]
        if by_hand:
            plan, made_from = make_plan(by_hand, self._text), "written plan"
        elif tree:
            plan, made_from = tree.read, f"gold {tree.source}"
        else:
            plan, made_from = _worded(self._text), "words"
        unfit = made_from == "words" and any(_UNFIT_WORDS in node.question for node in plan.nodes)
        if len(plan.nodes) < 2 or unfit:
            return self._leave_out("no plan, as neither the data nor the words give one")
        written = write_plan(plan, self._text)
        if written:
            rows = [self._row("plan", plan_prompt(self._text), written, PLAN, made_from)]
        else:
            rows = self._leave_out("a plan that would be read as another")
        for step in tree.steps.values() if tree else ():
            if self._drawn(f"simple/{step.id}") < _SIMPLE_STEP_PERCENT:
                rows.append(self._row(f"plan/{step.id}", plan_prompt(step.asked), NO_PLAN, SIMPLE, "gold step"))
        return rows

    # Readings

    async def _gold_passages(self, finder: HopPassages) -> list[Passage]:
        """Return the gold passages; for a single fact without any, its subject's pages."""
        example, facts = self._question.example, self._question.facts
        if example.supporting_ids or example.hops != 1 or len(facts) != 1:
            return list(finder.gold(example.supporting_ids))
        return list(await finder.search(self._text, title=facts[0][0]))

    async def _whole(self, finder: HopPassages, gold: Sequence[Passage], *, often: bool) -> list[ChatRow]:
        """Make rows of the question itself, with and without its gold passages."""
        example = self._question.example
        answers = example.answers
        enough = example.hops == 1
        if not answers or (not enough and len(gold) < len(example.supporting_ids)):
            return self._leave_out(_NO_GOLD)
        closed = normalise(answers[0]) in CLOSED_ANSWERS
        evidence = find_evidence(self._text, answers, gold, self._sentences)
        if closed and (evidence := find_closest(self._text, gold, self._sentences)):
            evidence = replace(evidence, answer=normalise(answers[0]))
        wide = await finder.search(self._text, k=WIDE * finder.k)
        if evidence is None or len(evidence.answer.split()) > _MAX_ANSWER_WORDS:
            unsaid = without_answers(self._main, answers, ())
            if enough and unsaid == self._main and {hit.id for hit in gold} & {hit.id for hit in self._main}:
                return self._reading("none", self._text, self._main, NOT_FOUND, NONE, "gold page without the answer")
            return self._leave_out("no reading of the question, as no gold sentence says the answer")
        needed = [evidence.passage] if enough else gold
        shown = with_gold(self._main, needed, f"{self._question.key}/whole")
        if enough and self._drawn("few") < _FEW_PERCENT:
            shown = only_few(shown, next(hit for hit in shown if hit.id == evidence.passage.id))
        made_from = "gold sentence" if self._sentences else "gold passage"
        rows = self._reading("read", self._text, shown, _told(evidence), READ, made_from)
        further = range(finder.k, len(wide) if often else 0, finder.k)
        for place, first in enumerate(further, 1):
            shown = with_gold(wide[first : first + finder.k], needed, f"{self._question.key}/whole/{place}")
            rows += self._reading(f"read/beside/{place}", self._text, shown, _told(evidence), READ, made_from)
        if self._drawn("none") < _NOT_FOUND_PERCENT:
            rows += self._whole_not_found(finder, gold, wide, closed)
        return rows

    def _whole_not_found(
        self, finder: HopPassages, gold: Sequence[Passage], wide: Sequence[Passage], closed: bool
    ) -> list[ChatRow]:
        """Make a row of passages without the answer."""
        answers = self._question.example.answers
        if (closed or "comparison" in self._question.example.type) and len(gold) > 1:
            dropped = gold[self._drawn("dropped") * len(gold) // 100]
            others = [hit for hit in wide if hit.id != dropped.id and hit.title != dropped.title][: finder.k]
            shown = with_gold(others, [hit for hit in gold if hit.title != dropped.title][: finder.k - 1], "none")
        elif closed:
            shown = tuple(hit for hit in wide if hit.id != gold[0].id)[: finder.k]
        else:
            shown = without_answers(wide, answers, ())[: finder.k]
        if len(shown) < 2:
            return self._leave_out(f"no {NOT_FOUND}, as all that is found has it")
        return self._reading("none", self._text, shown, NOT_FOUND, NONE, "other passages")

    def _guess(self) -> list[ChatRow]:
        """Make a row of a forced answer to the passages that were found."""
        answers = [answer for answer in self._question.example.answers if len(answer.split()) <= _MAX_ANSWER_WORDS]
        if not answers or normalise(answers[0]) in CLOSED_ANSWERS:
            return []
        stated = find_evidence(self._text, answers, self._main)
        documents = show_passages(None, self._main, titles=True)
        prompt = prompt_for(METHOD, TRAINED_GUESS_PROMPT).fill(documents=documents, question=self._text)
        # The usual name is the answer that shares most words with the others.
        usual = max(answers, key=lambda answer: sum(best_overlap(answer, [other]).f1 for other in answers))
        return [self._row("guess", prompt, stated.answer if stated else usual, GUESS, "found passages")]

    async def _part(self, finder: HopPassages, step: GoldStep, references: Sequence[GoldStep]) -> list[ChatRow]:
        """Make rows of a sub-question, with and without its gold passages."""
        gold = await finder.gold_of_step(self._question.example, step)
        evidence = find_evidence(step.asked, [step.answer], gold, self._sentences)
        if evidence is None or len(evidence.answer.split()) > _MAX_ANSWER_WORDS:
            return self._leave_out("no reading of a step, as no gold sentence says its answer")
        self._gold[step.id], self._evidence[step.id] = evidence.passage, evidence
        key = f"{self._question.key}/{step.id}"
        shown = with_gold(await finder.gather(step.asked, references, self._main), [evidence.passage], key)
        if self._drawn(f"few/{step.id}") < _FEW_PERCENT:
            shown = only_few(shown, next(hit for hit in shown if hit.id == evidence.passage.id))
        rows = self._reading(f"read/{step.id}", step.asked, shown, _told(evidence), READ, "gold step")
        if self._drawn(f"none/{step.id}") < _NOT_FOUND_PERCENT:
            rows += await self._not_found(finder, step, references)
        if _ABOUT_PERSON.search(step.asked) and self._drawn(f"untold/{step.id}") < _UNTOLD_PERCENT:
            rows += await self._untold(finder, step)
        return rows

    async def _untold(self, finder: HopPassages, step: GoldStep) -> list[ChatRow]:
        """Make a row of a question about a person that no shown passage answers."""
        page = self._gold[step.id]
        name = ADDITION.sub("", page.title)
        untold = untold_question(name, page, f"{self._question.key}/untold/{step.id}")
        if untold is None or not is_named(name, step.asked):
            return []
        asked, cue = untold
        shown = with_gold(await finder.gather(asked, (), self._main), [page], f"{self._question.key}/page/{step.id}")
        if any(is_named(name, f"{hit.title} {hit.text}") and cue.search(hit.text) for hit in shown):
            return []
        return self._reading(f"untold/{step.id}", asked, shown, NOT_FOUND, NONE, "page that does not tell")

    async def _not_found(self, finder: HopPassages, step: GoldStep, references: Sequence[GoldStep]) -> list[ChatRow]:
        """Make a row of other passages, sometimes with the gold page without its answer."""
        gold = self._gold[step.id]
        wide = await finder.gather(step.asked, references, self._main, wide=True)
        others = without_answers(wide, [step.answer], [gold])[: finder.k]
        made_from = "other passages"
        vague = any(word in step.asked.casefold() for word in _COMMON_VALUES)
        if self._drawn(f"cut/{step.id}") < _CUT_PERCENT and not vague and (cut := cut_answer(gold, [step.answer])):
            others, made_from = with_gold(others, [cut], f"{self._question.key}/cut/{step.id}"), "gold page cut"
        if self._drawn(f"few/none/{step.id}") < _FEW_PERCENT and made_from == "other passages":
            others = only_few(others)
        if len(others) < 2:
            return self._leave_out(f"no {NOT_FOUND}, as all that is found has it")
        return self._reading(f"none/{step.id}", step.asked, others, NOT_FOUND, NONE, made_from)

    def _last(self, tree: GoldTree, k: int) -> list[ChatRow]:
        """Make a row of the last reading: answered parts and their passages."""
        answers = self._question.example.answers
        answer = answers[0] if answers else ""
        closed = normalise(answer) in CLOSED_ANSWERS
        known = " ".join(f"{step.asked} {step.answer}" for step in tree.steps.values())
        if not answer or (not closed and not contains(known, [answer])):
            return self._leave_out("no last reading, as the steps do not give the answer")
        if len(self._gold) < len(tree.steps):
            return self._leave_out("no last reading, as a step has no passage")
        first = tree.paths[0]
        short = len(tree.steps) > 2 and len(first) > 1 and self._drawn("short") < _SHORT_CHAIN_PERCENT
        dropped = first[0].id if short else 0  # its passage is still shown
        chains = [_chain(path, dropped) for path in tree.paths]
        cited = [self._gold[number] for number in sorted(self._gold)]
        own = self._main if self._drawn("own") < _OWN_PERCENT else ()
        passages = list({hit.id: hit for hit in (*cited[:k], *own)}.values())[: k + MAX_FURTHER_PASSAGES]
        target = self._last_target(tree, chains, answer, closed)
        chains = list(dict.fromkeys(chains))
        rows = self._reading("last", self._text, passages, target, LAST, f"gold {tree.source}", chains)
        if len(tree.paths) == 1 and self._drawn("unanswered") < _UNANSWERED_PERCENT:
            known = _chain(first[:-1], 0)
            if others := without_answers(passages, answers, ()):
                rows += self._reading("last/none", self._text, others, NOT_FOUND, LAST, "last step unanswered", [known])
        return rows

    def _last_target(self, tree: GoldTree, chains: Sequence[str], answer: str, closed: bool) -> str:
        """Return the answer, with the sentence or chain that supports it."""
        for number, step in sorted(tree.steps.items(), reverse=True):
            if not closed and normalise(step.answer) == normalise(answer):
                return _told(self._evidence[number])
        chain = next((chain for chain in chains if not closed and contains(chain, [answer])), chains[0])
        return f"{answer.lower() if closed else answer}{SENTENCE}{chain}"


def _told(evidence: Evidence) -> str:
    return f"{evidence.answer}{SENTENCE}{evidence.sentence}"


def _chain(path: Sequence[GoldStep], dropped: int) -> str:
    return " ".join(f"{step.asked} {step.answer}." for step in path if step.id != dropped)


def plan_prompt(question: str) -> Filled:
    """Return the prompt for a plan of a trained model."""
    return prompt_for(METHOD, "trained_plan").fill(question=question)


def _worded(question: str) -> Plan:
    """Return the plan of a comparison, by the question's words; empty for others."""
    plan: dict[str, Any] = {}
    number = 0
    for chain in plan_comparison(question) or ():
        entry: dict[str, Any] = {}
        for place, asked in reversed(list(enumerate(chain, 1))):
            text = asked.replace(_PLACEHOLDER, f"#query{number + place - 1}") if place > 1 else asked
            entry = {f"query{number + place}": {"question": text, **({"children": entry} if entry else {})}}
        plan |= entry
        number += len(chain)
    return make_plan(plan, question)
