"""Which artifacts run on which devices, asked before a rollout and answered offline.

    profiles   what one device is: the JSON of `aotc doctor` and of the C probe, checked
    fleet      many devices: files, folders and shipped names, grouped by class
    matrix     artifacts × classes of devices: verdicts, reasons, memory
    cures      what would make a variant run where it does not
    cover      the smallest set of targets that a fleet needs
    policy     whether the answer is good enough

The rules are those of `compat` and `selection`, which the loader uses, so that the
answer is what a device will do. Needs the standard library and `cryptography`.
"""
