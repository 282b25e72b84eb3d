// A global holds what another one held before the last call; that is returned.
util.global private mutable @now = 7 : i32
util.global private mutable @before = 5 : i32
util.func public @main(%x: i32) -> i32 {
  %old = util.global.load @now : i32
  %y = util.global.load @before : i32
  util.global.store %old, @before : i32
  util.global.store %x, @now : i32
  util.return %y : i32
}
