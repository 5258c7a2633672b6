"""The HTTP server: the same answers, where other programs and web pages ask.

`create_app` (in `app.py`) makes the application of `Settings`. Nothing is imported here: the process that indexes
uploads needs none of it.
"""
