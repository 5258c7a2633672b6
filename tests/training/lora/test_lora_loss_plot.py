"""The picture of the losses stands alone, and the line shows where they went."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from hoptree.training.lora.checkpoint import loss_line, loss_picture, smoothed


@pytest.mark.parametrize("losses", [[1.0], [2.0, 1.0], [2 / (1 + step) for step in range(700)], [0.0, 0.0]])
def test_a_picture_that_any_program_shows(losses: list[float]) -> None:
    drawn = ElementTree.fromstring(loss_picture("Loss on <base> & more", losses))
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    lines = {line.get("class"): line for line in drawn.iter("{http://www.w3.org/2000/svg}polyline")}
    for kind in ("raw", "curve"):
        points = [tuple(map(float, point.split(","))) for point in (lines[kind].get("points") or "").split()]
        assert len(points) == len(losses)
        assert all(0 <= x <= 460 and 0 <= y <= 300 for x, y in points)
    assert "Loss on <base> & more" in "".join(drawn.itertext())


def test_a_running_mean_begins_with_the_first_loss_and_follows() -> None:
    assert smoothed([3.0]) == pytest.approx([3.0])
    assert smoothed([1.0] * 50)[-1] == pytest.approx(1.0)
    mean = smoothed([2.0] * 5 + [0.0] * 40)
    assert mean[4] == pytest.approx(2.0) and 0 < mean[-1] < 0.1


def test_a_line_of_blocks() -> None:
    assert loss_line([4.0, 2.0, 0.0]) == "█▅▁"
    assert loss_line([0.0]) == "▁"
    falling = loss_line([float(step) for step in range(500, 0, -1)])
    assert len(falling) == 40 and falling[0] == "█" and falling[-1] == "▁" and list(falling) == sorted(falling)[::-1]
