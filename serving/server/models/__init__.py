"""The models of a server, their versions, and how versions are loaded and unloaded.

`config` says what is wanted, `directory` finds what is on disk, `versions` decides what to do, and `manager`
does it: it loads a new version, warms it up and frees the old one.
"""
