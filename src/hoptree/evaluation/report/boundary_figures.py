"""The plots of knowledge-boundary awareness: TAIKC's Figures 5 and 8 to 11, and precision against coverage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hoptree.evaluation.report.boundary import DOMAINS, Awareness, mean_over, on_all, read_boundary
from hoptree.evaluation.report.figures import Figure
from hoptree.evaluation.report.plots import Bars, Line, bars, lines
from hoptree.evaluation.report.runs import DataGroup

__all__ = ["boundary_figures"]

_CONSISTENCY = {"consistency_f1": "F1 of the two answers", "consistency_judged": "judged to mean the same"}
_SETTINGS = "Direct QA asks for an answer, Confident QA lets the model refuse; the knowledge gap is what it refused."


def boundary_figures(groups: Iterable[DataGroup]) -> list[Figure]:
    """Figures 5 and 9 (accuracy where it is sure and where not), 8 and 11 (consistency), 10 (means of models)."""
    known = read_boundary(groups)
    if not known:
        return []
    agree = "How far a model's two answers to a question agree, where it gave two."
    found = [
        _of_each("sure", "Accuracy by the model's own word", DOMAINS, known, f"{_SETTINGS} Accuracy is F1."),
        _of_each("same", "Consistency", _CONSISTENCY, known, agree),
        _of_models(known),
        _consistency_of_models(known, agree),
    ]
    return [*filter(None, found), *_curves(known)]


def _of_each(name: str, title: str, measures: Mapping[str, str], known: Sequence[Awareness], caption: str) -> Figure:
    rows = [(one.label, [_bar(one.measures[measure]) for measure in measures]) for one in known]
    plot = bars(f"boundary-{name}", title, "points of 100", list(measures.values()), rows)
    return Figure(title, caption, plot, tuple(enumerate(measures.values())), _ids(known))


def _of_models(known: Sequence[Awareness]) -> Figure | None:
    """Figure 10: models side by side, over all data sets."""
    models = on_all(known)
    if not models:
        return None
    rows = [(label, [_bar(mean_over(some, name)) for name in DOMAINS]) for label, some in models.items()]
    sets = len(next(iter(models.values())))
    title = f"Accuracy by the model's own word, mean of {sets} data sets"
    plot = bars("boundary-mean", title, "points of 100", list(DOMAINS.values()), rows)
    caption = f"{_SETTINGS} Accuracy is F1; each data set counts the same."
    return Figure(title, caption, plot, tuple(enumerate(DOMAINS.values())), _ids(known))


def _consistency_of_models(known: Sequence[Awareness], caption: str) -> Figure | None:
    """Figure 11: by data set, models side by side."""
    models = list(dict.fromkeys(one.run.label for one in known))
    if len(models) < 2:
        return None
    judged = all(one.measures["consistency_judged"] is not None for one in known)
    name = "consistency_judged" if judged else "consistency_f1"
    by_place = {(one.data, one.run.label): one.measures[name] for one in known}
    rows = [
        (data, [_bar(by_place.get((data, model))) for model in models])
        for data in dict.fromkeys(one.data for one in known)
    ]
    title = f"Consistency of models, {'judged' if judged else 'F1'}"
    plot = bars("boundary-models", title, "points of 100", models, rows)
    return Figure(title, caption, plot, tuple(enumerate(models)), _ids(known))


def _curves(known: Sequence[Awareness]) -> list[Figure]:
    """What a threshold on the least token probability would do, beside what the model's own word does."""
    models = list(dict.fromkeys(one.run.label for one in known))
    found = []
    for number, data in enumerate(dict.fromkeys(one.data for one in known)):
        some = [one for one in known if one.data == data and one.curve]
        if not some:
            continue
        drawn = [
            Line(models.index(one.run.label), one.run.label, [(100 * x, 100 * y) for x, y in one.curve], _own_word(one))
            for one in some
        ]
        title = f"{data}: right answers against answers kept"
        plot = lines(f"boundary-curve{number}", title, "kept of all questions, %", "right of those, %", drawn)
        caption = (
            "Lines: direct answers kept where the probability of their least likely token is high, from the surest on. "
            "Marks: what the model itself was sure of."
        )
        legend = tuple((line.series, line.name) for line in drawn)
        found.append(Figure(title, caption, plot, legend, _ids(some), shaped=True))
    return found


def _own_word(one: Awareness) -> tuple[float, float] | None:
    answered, refused, right = (one.measures[name] or 0.0 for name in ("answered", "refused", "precision"))
    return (100 * answered / (answered + refused), 100 * right) if answered else None


def _bar(value: float | None) -> Bars:
    return None if value is None else (100 * value, None, None)


def _ids(known: Sequence[Awareness]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.run.id for one in known))
