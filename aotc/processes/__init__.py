"""Child processes of Python: their start, messages, deadlines, and how they ended.

running    a program that is run to its end
asking     a child that answers questions, as its parent sees it
answering  the same in the child
messages   the form of questions and answers in the pipes between the two
"""
