# SPDX-License-Identifier: Apache-2.0
"""json_check.py FILE EXPRESSION...: prints each expression about the JSON object j that does not hold.

The file must be one line that holds one object, without a key twice.
"""
import json
import sys


def unique(pairs):
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"a key twice: {keys}"
    return dict(pairs)


def prod(shape):
    n = 1
    for size in shape:
        n *= size
    return n


text = open(sys.argv[1], encoding="ascii").read()
if not text.endswith("}\n") or text.count("\n") != 1:
    print(f"{sys.argv[1]} is not one line of one object: {text[:200]!r}")
j = json.loads(text, object_pairs_hook=unique)
for expression in sys.argv[2:]:
    try:
        held = eval(f"({expression}\n)")
    except Exception as e:
        held, expression = False, f"{expression} ({e!r})"
    if not held:
        print(f"not so: {expression}\n  {text[:300]}")
