"""The HTTP server: the same answers, for other programs and web pages.

`create_app` (in `app.py`) makes the application of `Settings`. Nothing is imported here: the process that indexes
uploads needs none of it.

    requests            guard  keys (and quotas)  limits  settings  names  request_schemas
    questions           routes/ask  routes/chat  ask  running_questions  streaming  sources
                        workers  answering_worker
    replies             views  progress_text  json_response  error_responses  metrics
    OpenAPI document    openapi  reply_schemas
    corpora             routes/corpora  corpora  corpus_service  staging  uploads  jobs  indexing  indexing_worker
    runs                runs
    the process         state (all that is open)  serve  routes/about
    the page            page/
"""
