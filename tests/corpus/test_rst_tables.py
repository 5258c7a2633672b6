"""Tables of reStructuredText as lists or CSV, and the source files that Sphinx keeps."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hoptree.corpus.read import read_passages
from hoptree.corpus.rst import rst_document


@pytest.mark.parametrize(
    "table",
    [
        """.. list-table:: Prices
   :widths: 25 75
   :header-rows: 1

   * - Item
     - Price
   * - Oil,
       heavy
     - 3
   * - Tar
     -
""",
        """.. csv-table:: Prices
   :header: "Item", "Price"

   "Oil, heavy", 3
   Tar,
""",
        """.. csv-table:: Prices
   :header-rows: 1
   :delim: ;

   Item; Price
   Oil, heavy; 3
   Tar;
""",
    ],
)
def test_rows_of_a_list_or_csv_table_have_column_names(table: str) -> None:
    text = rst_document(f"Before.\n\n{table}\nAfter.\n", "a.rst").text
    assert text == "Before.\n\nPrices\n\nItem: Oil, heavy; Price: 3\n\nItem: Tar\n\nAfter."


def test_a_list_in_a_cell_and_a_table_without_names() -> None:
    table = ".. list-table::\n\n   * - Oil\n     - - heavy\n       - light\n   * - Tar\n     - 4\n"
    assert rst_document(table, "a.rst").text == "Oil | - heavy - light\n\nTar | 4"
    odd = ".. csv-table:: Odd\n   :delim: none\n\n   Tar; 4\n"
    assert rst_document(odd, "a.rst").text.split() == ["Odd", "Tar;", "4"]


def test_time_does_not_grow_with_the_depth_of_nested_tables() -> None:
    deep = "".join(f"{' ' * depth}.. csv-table::\n" for depth in range(600))
    began = time.process_time()
    rst_document(deep, "a.rst")
    assert time.process_time() - began < 3.0


def test_sources_with_a_second_suffix_txt_are_read_by_the_first(tmp_path: Path) -> None:
    (tmp_path / "use.rst.txt").write_text("Use\n===\n\nSee :doc:`install` and *care*.\n")
    (tmp_path / "install.md.txt").write_text("# Install\n\nRun **it**.\n")
    by_id = {passage.id: (passage.title, passage.text) for passage in read_passages(tmp_path)}
    assert by_id == {"install.md.txt#1": ("Install", "Run it."), "use.rst.txt#1": ("Use", "See install and care.")}
    document = rst_document("See :doc:`/install`.", "guide/use.rst.txt")
    assert document.references == ((0, "install.rst.txt"),)
