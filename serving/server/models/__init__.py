"""The models of a server: which there are, which versions of each, and how a version comes and goes.

`config` says what is wanted, `directory` what is on disk, `versions` what is to be done, and `manager` does
it: it loads a new version, has it warmed up, and frees the one it replaces.
"""
