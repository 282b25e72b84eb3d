"""The `aotc` command: one verb, one file, imported when the verb is used.

`main.py` holds the table of verbs, `failure.py` turns errors into messages and exit
codes, `output.py` prints answers and `progress.py` shows how far a long verb is. An
answer goes to standard output and everything else to standard error.
"""
