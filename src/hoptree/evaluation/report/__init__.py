"""Reports: what runs came to, as tables, plots and one page on which every single question can be looked at."""

from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import DataGroup, Run, find_runs, read_groups
from hoptree.evaluation.report.page import write_page
from hoptree.evaluation.report.tables import Number, Table, TableRow, as_csv, as_latex, as_markdown

__all__ = [
    "DataGroup",
    "Number",
    "Run",
    "Table",
    "TableRow",
    "as_csv",
    "as_latex",
    "as_markdown",
    "find_runs",
    "read_groups",
    "tables_of",
    "write_page",
]
