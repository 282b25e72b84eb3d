"""Offline answers on which artifacts run on which devices, before a rollout.

    profiles        what one device is: the JSON of `aotc doctor` and the C probe
    fleet           many devices, read from files and folders
    signatures      who vouches for a file of devices
    regular_files   what reads the files that strangers name
    device_classes  devices that are equal for all that matters
    matrix          artifacts × classes of devices: verdicts, reasons, memory
    policy          whether the answer is good enough
    candidates      the targets that a device could run
    advice          what to do about one artifact on one class of devices
    cure            the fewest targets for a whole fleet
    cover           the minimum set cover that finds them
    report          all of it as a JSON document

The rules are those of `compat` and `selection`, which the loader uses, so that the
answer is what a device will do. Needs the standard library and `cryptography`.
"""
