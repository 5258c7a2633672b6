"""The HTTP server: answers for other programs and for web pages.

`create_app` (in `app.py`) makes the application from `Settings`. Nothing is imported here, as the process that indexes
uploads needs none of it.

    requests            guard  keys (and quotas)  settings (and limits)  request_schemas
    questions           ask_routes  openai_routes  question_service  streaming  resources
                        answer_format  workers  answering_worker
    replies             views  error_responses  prometheus  reply_schemas (and the OpenAPI document)
    corpora             corpus_routes  corpus_service  topics  uploads  jobs  indexing  indexing_worker
    runs                runs
    the process         app  about_routes
    the page            page/
"""
