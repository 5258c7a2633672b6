"""The HTTP server: the same answers, where other programs and web pages ask.

`create_app` (in `app.py`) makes the application of `Settings`. Nothing is imported here: the process that indexes
uploads needs none of it.

    at the door         guard  keys  allowance  limits  settings  schemas  unreadable  names
    a question          routes/asks  routes/chats  asking  live  journal  streaming  chat  models  sources
                        unopened  workers  answering_worker  crossing
    what is told        telling  words  option_words  replying  refusals  mistakes (the log)  metrics
    the document        document  reply_schemas/
    corpora             routes/corpora  corpora  changing  unpacking  file_names  pending  placing  to_the_end
                        jobs  outcomes  indexing  indexing_worker  reindexing  replacements
    runs                routes/runs  runs
    the process         state (all that is open)  serving  open_files  collecting
    the page            routes/page  page/
"""
