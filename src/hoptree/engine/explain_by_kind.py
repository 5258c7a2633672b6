"""Why a node's answer was taken, and what an unfinished node had come to, read off the decisions in a trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hoptree.engine.events import GUESS, Draft, Event

_LETTERS = 60
_SO_FAR_LETTERS = 200
_UNSETTLED = "read, but not settled"

Decisions = Mapping[int, Sequence[Event]]
"""The decisions of each node, in order."""


def told_why(record: Event, decided: Decisions) -> str:
    """What the record of a node gives as its reason, and what decided between the answers that there were."""
    why = str(record.get("why") or "")
    return "; ".join((why, *_taken(record, decided))) if why else ""


def so_far(node: int, decided: Decisions) -> Draft | None:
    """What a node that was not finished had come to; None where nothing had been read."""
    mine = decided.get(node, ())
    if told := _last(mine, "so_far"):
        evidence = tuple(map(str, told.get("support", ())))
        return Draft(
            _short(told["value"]),
            str(told["source"]),
            evidence,
            (GUESS if told["source"] == "fallback" else str(told["branch"])) if told.get("branch") else "",
            str(told.get("why", "")),
        )
    if chosen := _last(mine, "surest"):
        source = ("fallback", "internal")[chosen["value"]] if chosen["when"] == "remembered" else ""
        return Draft(_short(_chosen(chosen)), source, why="" if source else _UNSETTLED)
    read = [event for event in mine if event["kind"] == "answered" and event["value"] is True and event.get("raw")]
    return Draft(_short(read[-1]["raw"]), why=_UNSETTLED) if read else None


def why_at_last(decisions: Sequence[Event]) -> str:
    """What decided between the answers to the question itself, by the decisions that belong to no node of its tree."""
    best = _last(decisions, "chosen") or _last(decisions, "standings")
    if best and "why" in best:
        return _likeliest(best, _last(decisions, "compared"))
    compared, chosen = _last(decisions, "compared"), _last(decisions, "surest", when="final")
    if compared and compared["value"]:
        return f"compared in code: {compared['why']}"
    undecided = "what was found could not be compared in code" if compared else ""
    return "; ".join(filter(None, (undecided, _of_readings(chosen) if chosen else "")))


def _likeliest(best: Event, compared: Event | None) -> str:
    """Why the likeliest answer is so, and what the others came to."""
    others = ", ".join(f"{_short(answer)} ({likely:.0%})" for answer, likely in best["over"])
    over = f" over {others}" if others else ""
    left = "" if best["given"] else f"; not given: {best.get('why_not', 'it is too unlikely')}"
    by = f"; compared in code: {compared['why']}" if compared and compared["value"] else ""
    return f"likely right by {best['probability']:.0%}{over}: {best['why']}{by}{left}"


def _of_readings(choice: Event) -> str:
    said = [answer for answer in choice["answers"] if answer]
    if _agree(choice):
        return f"all {len(said)} readings agree"
    of = f", that of {choice['named'][choice['value']]}" if choice.get("named") else ""
    return f"{'surest' if _told(choice) else 'taken'} of {len(said)} readings{of}: {_weighed(choice, _chosen(choice))}"


def _taken(record: Event, decided: Decisions) -> Iterable[str]:
    """In the order in which it was decided; what a later decision made void is left out."""
    # A question that comes again is looked up and concluded for the node that was first to ask it, and for it alone.
    looked, concluded = (
        decided.get(record[by] if by in record else record["id"], ()) for by in ("looked_by", "concluded_by")
    )
    answer, by_parts = record.get("answer", ""), record.get("source") == "synthesis"
    compared, combined = _last(concluded, "compared"), _last(concluded, "surest", when="combined")
    if compared and compared["value"] and by_parts:
        yield f"compared in code: {compared['why']}"
        return
    if not by_parts:
        yield from _before(_last(looked, "surest", when="read"), _last(looked, "surest", when="remembered"), answer)
    if compared:
        yield "what was found could not be compared in code"
    if combined:
        yield _combined(combined, answer)
    elif record.get("sub_questions") and answer and not by_parts:
        reason = ", as the sub-questions gave no answer" if "concluded_by" in record or concluded is looked else ""
        yield f"kept from before the split{reason}"


def _before(read: Event | None, remembered: Event | None, answer: str) -> Iterable[str]:
    """What decided between readings, and between the surest of them and memory."""
    if read and (not remembered or _chosen(remembered) == _chosen(read)):
        words = f"{'surer' if _told(read) else 'taken'} of two readings: {_weighed(read, answer)}"
        yield "two readings agree" if _agree(read) else words
    if remembered:
        won, lost = ("memory", "the guess") if remembered["value"] else ("the guess", "memory")
        words = f"{won} is {'surer than' if _told(remembered) else 'taken before'} {lost}: "
        yield f"{won} and {lost} agree" if _agree(remembered) else words + _weighed(remembered, answer)


def _combined(choice: Event, answer: str) -> str:
    told, weighed = _told(choice), _weighed(choice, answer)
    if choice["value"]:
        words = f"{'surer than' if told else 'taken instead of what was read'} before the split: {weighed}"
        return "as before the split" if _agree(choice) else words
    if _agree(choice):
        return "kept from before the split, and the sub-questions agree"
    return f"kept from before the split{', being surer' if told else ''}: {weighed} from the sub-questions"


def _last(decisions: Sequence[Event], kind: str, **given: str) -> Event | None:
    found = (one for one in reversed(decisions) if one["kind"] == kind)
    return next((one for one in found if all(one.get(name) == value for name, value in given.items())), None)


def _chosen(choice: Event) -> str:
    return str(choice["answers"][choice["value"]])


def _agree(choice: Event) -> bool:
    return len({" ".join(str(answer).casefold().split()) for answer in choice["answers"] if answer}) == 1


def _told(choice: Event) -> bool:
    """Whether the model told how sure it was; where it did not, the most frequent or the last was taken."""
    return any(sure is not None for sure in choice["confidence"])


def _weighed(choice: Event, answer: str) -> str:
    """The candidates with how sure the model was of each: first the one taken, not quoted if it is the answer."""
    pairs = list(zip(choice["answers"], choice["confidence"], strict=True))
    text, sure = pairs.pop(choice["value"])
    taken = "" if text == answer and sure is not None else f"“{_short(text, _LETTERS)}”"
    others = [f"“{_short(other, _LETTERS)}”{_number(least)}" for other, least in pairs if other]
    return f"{taken}{_number(sure)}".strip() + f" against {', '.join(others)}"


def _number(sure: float | None) -> str:
    return "" if sure is None else f" {sure:.2f}"


def _short(said: object, letters: int = _SO_FAR_LETTERS) -> str:
    text = " ".join(str(said).split())
    return text if len(text) <= letters else f"{text[:letters]}…"
