// A global that is told to hold no block of memory, and is read afterwards.
util.global private mutable @block : !stream.resource<transient>
util.func public @release() {
  %none = util.null : !stream.resource<transient>
  util.global.store %none, @block : !stream.resource<transient>
  util.return
}
util.func public @main() -> index {
  %held = util.global.load @block : !stream.resource<transient>
  %size = stream.resource.size %held : !stream.resource<transient>
  util.return %size : index
}
