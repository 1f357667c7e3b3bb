"""How requests arrive and answers leave: gRPC, HTTP and JSON, TLS and tokens, the playground.

Deadlines are set here. A gRPC request has its own, and gRPC cancels the handler when it has passed. A REST
request has none and gets the server's timeout (`RestApi._answer_in_time`). A request that is cancelled while
it waits for a batch or a thread never starts.
"""
