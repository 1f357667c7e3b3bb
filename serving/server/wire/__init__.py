"""How requests come in and answers go out: gRPC, HTTP and JSON, TLS and tokens, the playground.

Deadlines are set here. A gRPC request brings its own, and gRPC cancels its handler when that has passed; a
REST request has none, and is given the server's (`RestApi._answer_in_time`). What was cancelled while it
waited for a batch or a thread is never begun.
"""
