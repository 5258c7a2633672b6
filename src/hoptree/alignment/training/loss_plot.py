"""The loss over the steps, as a picture that stands alone and as one line of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hoptree.evaluation.report.svg import HEIGHT, WIDTH, Scale, line, picture, text

__all__ = ["loss_line", "loss_picture", "smoothed"]

_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 16, 12, 48
_BLOCKS = "▁▂▃▄▅▆▇█"
_KEPT = 0.9
# The colours of the report's page, which a picture that stands alone does not have.
_STYLE = (
    "<style>svg{background:#fff}text{font:13px system-ui,sans-serif;fill:#1b1f24}.label{fill:#59636e}"
    ".grid,.tick,.raw,.curve{fill:none}.grid{stroke:#d1d9e0}.tick{stroke:#59636e}"
    ".raw{stroke:#0072b2;opacity:.35}.curve{stroke:#0072b2;stroke-width:2}</style>"
)


def smoothed(losses: Sequence[float]) -> list[float]:
    """A running mean that forgets a tenth with every step; what it began without is made up for."""
    mean, weight, found = 0.0, 0.0, []
    for loss in losses:
        mean, weight = _KEPT * mean + (1 - _KEPT) * loss, _KEPT * weight + 1 - _KEPT
        found.append(mean / weight)
    return found


def loss_picture(title: str, losses: Sequence[float]) -> str:
    """The loss of each step, and its running mean: the paper's Figure 12."""
    x = Scale(1, max(2, len(losses)), _LEFT, WIDTH - _RIGHT)
    y = Scale(0, 1.05 * max(losses) or 1.0, HEIGHT - _BOTTOM, _TOP)
    parts = [_STYLE]
    for value in y.ticks():
        parts.append(line([(x.start, y(value)), (x.end, y(value))], "grid"))
        parts.append(text(x.start - 6, y(value) + 4, f"{value:.3g}", anchor="end"))
    for value in (step for step in x.ticks() if step == int(step)):
        parts.append(line([(x(value), y.start), (x(value), y.start + 4)], "tick"))
        parts.append(text(x(value), y.start + 17, f"{value:,.0f}"))
    parts.append(line([(x.start, y.start), (x.end, y.start)], "tick"))
    parts.append(text((x.start + x.end) / 2, HEIGHT - 8, "step", "label"))
    parts.append(text(13, (y.start + y.end) / 2, "loss of a reply's tokens", "label", turned=True))
    for kind, values in (("raw", losses), ("curve", smoothed(losses))):
        parts.append(line([(x(step), y(value)) for step, value in enumerate(values, 1)], kind))
    about = f"Loss over {len(losses)} steps, and its running mean: {losses[0]:.3f} at first, {losses[-1]:.3f} at last."
    drawn = picture("loss", title, about, parts)
    return drawn.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def loss_line(losses: Sequence[float], width: int = 40) -> str:
    """The loss in blocks, from 0 to the highest."""
    count = min(width, len(losses))
    ends = [round(place * len(losses) / count) for place in range(count + 1)]
    means = [sum(losses[low:high]) / (high - low) for low, high in pairwise(ends)]
    most = max(means) or 1.0
    return "".join(_BLOCKS[min(len(_BLOCKS) - 1, int(len(_BLOCKS) * mean / most))] for mean in means)
