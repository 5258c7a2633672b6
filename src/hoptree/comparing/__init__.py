"""Questions that compare: which ones do, what they compare, and the comparison itself, done in code without a model."""

from hoptree.comparing.asking import asked_kind, facts_for
from hoptree.comparing.conclusion import Conclusion, conclude
from hoptree.comparing.dates import Date, read_date, read_dates
from hoptree.comparing.names import read_names, read_yes_no
from hoptree.comparing.numbers import Quantity, read_number, read_quantity
from hoptree.comparing.parts import parts_of
from hoptree.comparing.questions import Comparison, detect

__all__ = [
    "Comparison",
    "Conclusion",
    "Date",
    "Quantity",
    "asked_kind",
    "conclude",
    "detect",
    "facts_for",
    "parts_of",
    "read_date",
    "read_dates",
    "read_names",
    "read_number",
    "read_quantity",
    "read_yes_no",
]
