"""How requests come in and answers go out: gRPC, REST, JSON and protocol buffers."""
