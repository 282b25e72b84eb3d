"""`aotc devices`: the common devices that `aotc compat --device` knows by name."""

from __future__ import annotations

from aotc.cli import output
from aotc.cli.verb import format_option, verb


@verb(
    "aotc devices",
    "aotc compat digits-1.0.0.aotc --device jetson-orin",
)
@format_option()
def devices(form: str) -> None:
    """List the common devices of the shipped table, each with its sources.

    A device of the table has what every device of that name has. What depends on what
    is installed there, such as a driver's version, is unknown.
    """
    from aotc.artifacts.tables.devices import devices as shipped

    known = shipped().values()
    document = {
        "schema": "aotc.devices/1",
        "devices": [
            {
                "id": device.id,
                "name": device.name,
                "kind": device.kind,
                "aliases": list(device.aliases),
                "drivers": list(device.drivers),
                "profile": device.profile,
                "notes": device.notes,
                "sources": list(device.sources),
            }
            for device in known
        ],
    }
    rows = [
        (d.id, d.name, d.kind, ", ".join(d.aliases), d.profile["cpu"]["level"] or "")
        for d in known
    ]
    header = ("DEVICE", "NAME", "KIND", "ALSO", "PROCESSOR")
    output.emit(document, output.table(header, rows), form)
