"""The four papers' methods beyond their papers (`robust=on`): one module each, loaded when asked for."""
