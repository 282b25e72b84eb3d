"""How bundles compute calls of certain sizes, by what their manifests say."""

import pytest

from aotc.artifacts.manifest import Code, EntryPoint, Leaf, Symbol
from aotc.evidence.player import way_of


@pytest.mark.parametrize(
    ("policy", "path", "code"),
    [
        ("error", "refused", ""),
        ("route:other", "routed", "route:other"),
        ("callback:mine", "refused", ""),
    ],
)
def test_calls_without_code_go_where_the_policy_says(policy, path, code):
    leaf = Leaf("x", "f32", ("n",))
    four = Code("f_4", {"n": 4})
    point = EntryPoint(
        "f",
        "infer",
        (leaf,),
        {},
        (),
        0,
        (),
        (),
        (),
        (),
        (four,),
        has_general_code=False,
    )
    symbols = {"n": Symbol(0, None, 1, policy)}
    assert way_of(point, symbols, {"n": 4}, 4).path == "own"
    found = way_of(point, symbols, {"n": 5}, 5)
    assert (found.path, found.code) == (path, code)
