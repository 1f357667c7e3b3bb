"""The models of a server: which there are, their versions, loading, warming up and unloading."""
