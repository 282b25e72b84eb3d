"""Which kernels may get memory that begins anywhere, by offsets of dispatches."""

from __future__ import annotations

from aotc.worker.alignment import unaligned_kernels

DISPATCH = """
module {{
  hal.executable.source private @k {{
    hal.executable.export public @f ordinal(0) layout(#hal.pipeline.layout<bindings = [
      #hal.pipeline.binding<storage_buffer>]>) count(%d: !hal.device) -> (index, index,
      index) {{
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }}
  }}
  util.global private mutable @held : !stream.resource<constant>
  util.func public @entry(%n: index, %given: !stream.resource<transient>) {{
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c48 = arith.constant 48 : index
    %c64 = arith.constant 64 : index
    %rows = arith.muli %n, %c48 : index
    %odd = arith.muli %n, %c8 : index
    %both = arith.addi %rows, %c64 : index
    %up = util.align %odd, %c64 : index
    %size = arith.constant 9999 : index
    %new, %t = stream.resource.alloca uninitialized
      : !stream.resource<transient>{{%size}} => !stream.timepoint
    %part = stream.resource.subview %new[%c8] : !stream.resource<transient>{{%size}}
      -> !stream.resource<transient>{{%size}}
    %held = util.global.load @held : !stream.resource<constant>
    %done = stream.cmd.execute await(%t) => with({memory} as %x: {kind}{{%size}}) {{
      stream.cmd.dispatch @k::@f {{
        rw %x[{offset} for %c16] : {kind}{{%size}}
      }}
    }} => !stream.timepoint
    util.return
  }}
}}
"""


def test_memory_begins_at_multiples_where_offsets_say_so() -> None:
    from iree.compiler import ir

    known = {
        ("%new", "%c0"): True,
        ("%new", "%c48"): True,
        ("%new", "%rows"): True,
        ("%new", "%both"): True,
        ("%new", "%up"): True,
        ("%new", "%c8"): False,
        ("%new", "%odd"): False,
        ("%new", "%n"): False,
        ("%part", "%c0"): False,
        ("%given", "%c0"): False,  # of which nothing is known
        ("%held", "%c0"): False,  # which nothing stores
    }
    with ir.Context():
        for (memory, offset), is_aligned in known.items():
            kind = (
                f"!stream.resource<{'constant' if memory == '%held' else 'transient'}>"
            )
            text = DISPATCH.format(memory=memory, offset=offset, kind=kind)
            found = unaligned_kernels(ir.Module.parse(text))
            assert found == ([] if is_aligned else ["k"]), (memory, offset)
