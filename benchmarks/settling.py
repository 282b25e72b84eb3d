"""Wait until a step of aotc has written its state.

With several threads an entry returns as soon as its results are known; a training step
then still computes its new state, for which the next call waits. A benchmark that rests
between steps, or runs a peer, would not count that. With one thread an entry returns
when all is done; calling another one would only take the memory that it keeps.
"""

ENTRY = '''

@aotc.entry(state={state}.frozen)
def settled(state):
    """One element of every array of the state."""
    leaves = aotc.core.pytree.flatten(state)[0]
    return sum(np.reshape(leaf, -1)[0].astype("f32") for leaf in leaves)
'''


def with_settled(source, state):
    """Return a model's source with an entry that waits for a state."""
    return source + ENTRY.format(state=state)


def settled(model, entry, threads):
    """Return a function `step(**inputs)`: call the entry, wait for the state, return
    the loss.
    """
    step, wait = model.entry(entry), model.entry("settled")

    def run(**inputs):
        loss = step(**inputs)
        if threads > 1:
            wait()
        return float(loss)

    return run
