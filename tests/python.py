# SPDX-License-Identifier: Apache-2.0
"""The module with numpy alone: numbers against formulas of the recipes, arguments that are wrong, jobs."""
import json
import os
import pathlib
import signal
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator

import numpy as np

import fp8conv

F32 = np.float32
MODEL = pathlib.Path(__file__).resolve().parents[1] / "sample_checkpoints/tiny-llama"
# OCP E4M3: code s eeee mmm; 0x7F is NaN.
E4M3 = np.array([(c & 7) * 2.0 ** -9 if c < 8 else (8 + (c & 7)) * 2.0 ** ((c >> 3) - 10) for c in range(127)])


def matrix(rows: int, columns: int) -> np.ndarray:
    random = np.random.default_rng(rows * 1000 + columns)
    return (random.standard_normal((rows, columns)) * np.exp2(random.integers(-6, 7, (rows, 1)))).astype(F32)


def cast(v: np.ndarray) -> np.ndarray:
    """The nearest code of each value up to 448; of two the even one."""
    a = np.minimum(np.abs(v.astype(np.float64)), 448)
    above = np.clip(np.searchsorted(E4M3, a), 1, 126)
    below = above - 1
    up, down = E4M3[above] - a, a - E4M3[below]
    code = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    return (code + np.where(np.signbit(v), 128, 0)).astype(np.uint8)


def values(codes: np.ndarray) -> np.ndarray:
    codes = codes.view(np.uint8)
    return np.where(codes > 127, -1, 1) * E4M3[codes & 127]


def expand(scales: np.ndarray, tile: tuple[int, int], shape: tuple[int, int]) -> np.ndarray:
    return np.kron(scales, np.ones(tile, F32))[:shape[0], :shape[1]]


# recipe: tile of a weight, and scale_inv of an amax.
def exact(amax: np.ndarray) -> np.ndarray:
    return F32(1) / (F32(448) / amax)


def pow2(amax: np.ndarray) -> np.ndarray:
    return np.exp2(-np.floor(np.log2((F32(448) / amax).astype(np.float64)))).astype(F32)


def e8m0(amax: np.ndarray) -> np.ndarray:
    return np.exp2(np.ceil(np.log2(amax.astype(np.float64) / 448))).astype(F32)


RECIPES = {"blockwise": ((128, 128), pow2), "channelwise": ((1, 0), exact), "current": ((0, 0), exact), "mxfp8": ((1, 32), e8m0)}


def expected(w: np.ndarray, recipe: str) -> tuple[np.ndarray, np.ndarray]:
    tile, rule = RECIPES[recipe]
    tile = tile[0] or w.shape[0], tile[1] or w.shape[1]
    grid = [-(-n // t) for n, t in zip(w.shape, tile)]
    amax = np.array([[np.abs(w[i * tile[0]:(i + 1) * tile[0], j * tile[1]:(j + 1) * tile[1]]).max() for j in range(grid[1])]
                     for i in range(grid[0])], F32)
    scale_inv = rule(amax)
    scale = F32(448) / amax if rule is exact else 1 / scale_inv
    return cast(w * expand(scale, tile, w.shape)), scale_inv


def floats(scale_inv: np.ndarray) -> np.ndarray:
    return scale_inv if scale_inv.dtype == F32 else np.exp2(scale_inv.view(np.uint8).astype(F32) - 127)


class Numbers(unittest.TestCase):
    def test_codes_and_scales_are_numpy_s(self) -> None:
        for recipe in RECIPES:
            for shape in (128, 256), (300, 260), (1, 5):
                with self.subTest(recipe=recipe, shape=shape):
                    w = matrix(*shape)
                    codes, scale_inv = fp8conv.quantize(w, recipe)
                    want_codes, want_scales = expected(w, recipe)
                    np.testing.assert_array_equal(floats(scale_inv), want_scales)
                    np.testing.assert_array_equal(codes.view(np.uint8), want_codes)
                    tile = RECIPES[recipe][0]
                    scales = expand(want_scales, (tile[0] or shape[0], tile[1] or shape[1]), shape)
                    got = fp8conv.dequantize(codes, scale_inv, dtype="f32")
                    np.testing.assert_array_equal(got, (values(codes) * scales).astype(F32))

    def test_a_columnwise_copy_is_the_transpose(self) -> None:
        w = matrix(160, 96)
        for recipe in "blockwise", "channelwise", "current":
            both = fp8conv.quantize(w, recipe, columnwise=True)
            alone = fp8conv.quantize(w, recipe, rowwise=False, columnwise=True)
            want = fp8conv.quantize(np.ascontiguousarray(w.T), recipe)
            for got in both[2:], alone:
                np.testing.assert_array_equal(got[0].view(np.uint8), want[0].view(np.uint8))
            back = fp8conv.dequantize(*both[2:], "f32", columnwise=True, recipe=recipe)
            np.testing.assert_array_equal(back, fp8conv.dequantize(*want, "f32").T)

    def test_each_matrix_of_a_stack_has_its_scales(self) -> None:
        stack = np.stack([matrix(130, 64) * F32(4) ** i for i in range(3)])
        codes, scale_inv = fp8conv.quantize(stack, "current")
        for i in range(3):
            one = fp8conv.quantize(stack[i], "current")
            np.testing.assert_array_equal(codes[i].view(np.uint8), one[0].view(np.uint8))
            np.testing.assert_array_equal(scale_inv[i], one[1])
        self.assertEqual(fp8conv.amax(stack), [float(np.abs(m).max()) for m in stack])
        np.testing.assert_array_equal(fp8conv.dequantize(codes, scale_inv[:, 0, 0], "f32"), (values(codes) * scale_inv).astype(F32))

    def test_rows_may_lie_apart_and_nothing_is_copied(self) -> None:
        w = matrix(64, 300)
        part = w[::2, 17:217]
        out = np.zeros((32, 256), np.uint8)[:, :200], np.zeros((32, 1), F32)
        returned = fp8conv.quantize(part, "channelwise", out=out)
        self.assertIs(returned[0], out[0])
        np.testing.assert_array_equal(out[0], expected(np.ascontiguousarray(part), "channelwise")[0])
        y = np.zeros((32, 200), np.float16)
        self.assertIs(fp8conv.dequantize(*out, "f16", out=y), y)
        np.testing.assert_array_equal(y, (values(out[0]) * out[1]).astype(F32).astype(np.float16))

    def test_options_change_the_scales(self) -> None:
        w = matrix(128, 128)
        np.testing.assert_array_equal(fp8conv.quantize(w, "blockwise", scale_fmt="float")[1], exact(np.abs(w).max(keepdims=True)))
        for margin in 1, np.int64(1):
            np.testing.assert_array_equal(fp8conv.quantize(w, "blockwise", scale_fmt="float", margin=margin)[1],
                                          2 * exact(np.abs(w).max(keepdims=True)))

    def test_each_thread_has_a_context(self) -> None:
        w, want, got = matrix(256, 256), None, []
        want = fp8conv.quantize(w)[0].view(np.uint8)
        threads = [threading.Thread(target=lambda: got.append(fp8conv.quantize(w)[0].view(np.uint8))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([np.array_equal(one, want) for one in got], [True] * 4)


W = matrix(8, 8)
READ_ONLY = np.zeros((8, 8), F32)
READ_ONLY.flags.writeable = False
ODD = np.zeros(8 * 8 * 4 + 4, np.uint8)[1:257].view(F32).reshape(8, 8)
SCALE = np.ones((1, 1), F32)
CODES = np.zeros((8, 8), np.uint8)
# A call, the error, and a part of its text.
WRONG = [
    (lambda: fp8conv.quantize([[1.0]]), TypeError, "w is list, expected a numpy array or a torch tensor"),
    (lambda: fp8conv.quantize(None), TypeError, "w is NoneType"),
    (lambda: fp8conv.quantize(W.astype(np.float64)), TypeError, "w has elements of float64"),
    (lambda: fp8conv.quantize(W.astype(">f4")), TypeError, "w has elements of >f4"),
    (lambda: fp8conv.quantize(W.astype(np.int8)), TypeError, "w has elements of int8"),
    (lambda: fp8conv.quantize(W.astype(object)), TypeError, "w has elements of object"),
    (lambda: fp8conv.quantize(W[0]), ValueError, "w has the shape (8,), expected a matrix"),
    (lambda: fp8conv.quantize(W.reshape(2, 2, 4, 4)), ValueError, "w has the shape (2, 2, 4, 4)"),
    (lambda: fp8conv.quantize(np.zeros((0, 8, 8), F32)), ValueError, "a stack without matrices"),
    (lambda: fp8conv.quantize(W.T), ValueError, "the elements of a row must be adjacent"),
    (lambda: fp8conv.quantize(W[::-1]), ValueError, "must not be shared or reversed"),
    (lambda: fp8conv.quantize(np.broadcast_to(W[0], (8, 8))), ValueError, "must not be shared or reversed"),
    (lambda: fp8conv.quantize(W, "fp4"), fp8conv.Error, "unknown recipe 'fp4'"),
    (lambda: fp8conv.quantize(W, None), TypeError, "recipe is NoneType"),
    (lambda: fp8conv.quantize(W, colour=1), fp8conv.Error, "unknown option 'colour'"),
    (lambda: fp8conv.quantize(W, "current", margin=[1]), fp8conv.Error, "option 'margin' is not"),
    (lambda: fp8conv.quantize(W, role="weight"), ValueError, "role is 'weight', expected one of x, w"),
    (lambda: fp8conv.quantize(W, layout="tiled"), ValueError, "layout is 'tiled'"),
    (lambda: fp8conv.quantize(W, rowwise=False), ValueError, "neither rowwise nor columnwise"),
    (lambda: fp8conv.quantize(W, out=(CODES,)), ValueError, "out has 1 tensors, expected 2"),
    (lambda: fp8conv.quantize(W, out=(CODES[:4], SCALE)), fp8conv.Error, "rowwise has the shape (1, 4, 8), expected (1, 8, 8)"),
    (lambda: fp8conv.quantize(W, out=(W, SCALE)), fp8conv.Error, "rowwise has elements of F32, expected F8_E4M3"),
    (lambda: fp8conv.quantize(W, "current", out=(CODES, READ_ONLY[:1, :1])), ValueError, "out[1] is read-only"),
    (lambda: fp8conv.dequantize(W, SCALE, "f32"), fp8conv.Error, "the codes have elements of F32"),
    (lambda: fp8conv.dequantize(CODES, W, "f32"), fp8conv.Error, None),
    (lambda: fp8conv.dequantize(CODES, W[:3]), ValueError, "3 scales for 8 rows are no blocks"),
    (lambda: fp8conv.dequantize(CODES, SCALE, "f64"), ValueError, "dtype is 'f64'"),
    (lambda: fp8conv.dequantize(CODES, SCALE, "f32", out=READ_ONLY), ValueError, "out is read-only"),
    (lambda: fp8conv.dequantize(CODES, SCALE, "f32", out=W[:4]), fp8conv.Error, "y has the shape (1, 4, 8)"),
    (lambda: fp8conv.dequantize(CODES, SCALE, "f32", layout="padded"), ValueError, "give recipe="),
    (lambda: fp8conv.amax(CODES), TypeError, "x has elements of uint8"),
    (lambda: fp8conv.quantize(W, "current", margin=object()), TypeError, "option 'margin' is object, expected a text, a number"),
    (lambda: fp8conv.quantize(W, out=7), TypeError, "out is int, expected a tuple of tensors"),
    (lambda: fp8conv.Plan(None, ["a.weight"]), TypeError, "tensors is list, expected a dict"),
    (lambda: fp8conv.Plan(None, {"a.weight": ((8, 8),)}), TypeError, "expected (shape, dtype) or a tensor"),
    (lambda: fp8conv.Plan(None, {"a.weight": (8, "F32")}), TypeError, "expected (shape, dtype) or a tensor"),
    (lambda: list(fp8conv.Plan(None, {"a.weight": W}, recipe="channelwise").convert(["a.weight"])), TypeError, "tensors has str, expected pairs"),
    (lambda: fp8conv.run("merge", "a", "b", output=True), ValueError, "option 'output' is True, expected a value"),
    (lambda: fp8conv.run("quantise"), fp8conv.Error, "did you mean 'quantize'?"),
    (lambda: fp8conv.run("inspect", MODEL, no_such_option=True), fp8conv.Error, "no-such-option"),
]


class Wrong(unittest.TestCase):
    def test_wrong_arguments_are_errors(self) -> None:
        for i, (function, kind, text) in enumerate(WRONG):
            with self.subTest(i=i):
                if text is None:
                    function()          # 8 x 8 scales are one each
                    continue
                with self.assertRaises(kind) as caught:
                    function()
                self.assertIn(text, str(caught.exception))

    def test_a_history_has_magnitudes(self) -> None:
        state = fp8conv.RecipeState("delayed", amax_history_len=1)
        for bad in -1.0, float("nan"):
            with self.subTest(bad), self.assertRaisesRegex(fp8conv.Error, "amax 0 of slot 1"):
                state.set_history([[1.0, bad, 1.0]])

    def test_a_context_that_is_left_too_early_ends_with_those_within(self) -> None:
        def steps() -> Iterator[None]:
            with fp8conv.autocast(recipe="delayed", amax_history_len=2):
                yield
        inner, state = steps(), fp8conv.RecipeState("delayed", amax_history_len=2)
        next(inner)
        with fp8conv.autocast(recipe="delayed", amax_history_len=2):
            state.calibrate(0, 3.0)
            with self.assertRaisesRegex(RuntimeError, "order in which they were entered"):
                inner.close()
        self.assertEqual(state.amax_history[-1][0], 3.0)        # the step has ended
        with fp8conv.autocast(recipe="delayed") as cast:
            cast.step()

    def test_memory_need_not_be_aligned_and_may_be_empty(self) -> None:
        ODD[:] = W
        np.testing.assert_array_equal(fp8conv.quantize(ODD)[0].view(np.uint8), fp8conv.quantize(W)[0].view(np.uint8))
        codes, scale_inv = fp8conv.quantize(np.zeros((0, 8), F32))
        self.assertEqual((codes.shape, scale_inv.shape), ((0, 8), (0, 1)))


class Plans(unittest.TestCase):
    def test_a_plan_is_what_quantize_does(self) -> None:
        config = json.loads((MODEL / "config.json").read_text())
        name, norm = "model.layers.0.mlp.down_proj.weight", "model.norm.weight"
        w = matrix(128, 256)
        plan = fp8conv.Plan(config, {name: w, norm: ((128,), "float32")}, recipe="blockwise")
        self.assertEqual([(e.action, e.recipe) for e in plan.entries.values()], [("quantize", "blockwise"), ("keep", None)])
        self.assertEqual(plan.config["quantization_config"]["weight_block_size"], [128, 128])
        got = dict(plan.convert({norm: w[0, :128], name: w}))
        self.assertEqual(set(got), {name, f"{name}_scale_inv", norm})
        codes, scale_inv = expected(w, "blockwise")
        np.testing.assert_array_equal(got[name].view(np.uint8), codes)
        np.testing.assert_array_equal(got[f"{name}_scale_inv"], scale_inv)
        with self.assertRaisesRegex(fp8conv.Error, "'fp4' is not FP8"):
            fp8conv.Plan(config, {name: w}, recipe="fp4")
        with self.assertRaisesRegex(TypeError, "dtype is"):
            fp8conv.Plan(config, {name: ((1, 1), "real")})
        with self.assertRaisesRegex(ValueError, "the plan has F32"):
            list(plan.convert([(name, w.T)]))
        with self.assertRaisesRegex(ValueError, "came twice"):
            list(plan.convert([(name, w), (name, w)]))

    def test_wrong_models_are_errors(self) -> None:
        w = matrix(128, 256)
        for kind, text, config, tensors in (
                (TypeError, "config is int", 3, {"a.weight": w}),
                (ValueError, "NUL", "{}\0", {"a.weight": w}),
                (ValueError, "NUL", None, {"a\0.weight": w}),
                (TypeError, "the name of a tensor is int", None, {3: w}),
                (TypeError, "tensor 'a.weight' is list", None, {"a.weight": [128, 256]}),
                (TypeError, "order of this machine", None, {"a.weight": w.astype(">f4")})):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                fp8conv.Plan(config, tensors, recipe="blockwise")
        with self.assertRaisesRegex(TypeError, "order of this machine"):
            list(fp8conv.Plan(None, {"a.weight": w}).convert([("a.weight", w.astype(">f4"))]))


class Jobs(unittest.TestCase):
    def test_a_job_prints_nothing_and_returns_all(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            seen: list[fp8conv.Progress] = []
            done = fp8conv.run("quantize", MODEL, output=f"{folder}/out", json=True, progress=seen.append)
            self.assertEqual((done.status, done.output["output"]), (0, f"{folder}/out"))
            self.assertTrue(all(0 <= p.done <= p.total for p in seen))
            self.assertTrue(os.path.isfile(f"{folder}/out/config.json"))
            with open(f"{folder}/out/config.json", "a", encoding="utf-8") as file:
                file.write("{")
            self.assertEqual(fp8conv.run("verify", f"{folder}/out", json=True).status, 1)

    def test_what_progress_raises_ends_the_job(self) -> None:
        def fail(_: fp8conv.Progress) -> None:
            raise RuntimeError("enough")
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(RuntimeError, "enough"):
            fp8conv.run("quantize", MODEL, output=f"{folder}/out", progress=fail)
        self.assertEqual(fp8conv.run("recipes", json=True).status, 0)

    def test_an_interrupted_job_has_ended(self) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for delay in range(40):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-4 * (1 + delay))
                    fp8conv.run("verify", MODEL, json=True)
                    time.sleep(1)
                except KeyboardInterrupt:
                    pass
                self.assertEqual(fp8conv.run("recipes").status, 0)
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_words_that_c_does_not_have_are_errors(self) -> None:
        for kind, command in (TypeError, None), (ValueError, "recipes\0"), (UnicodeEncodeError, "\ud800"):
            with self.subTest(command), self.assertRaises(kind):
                fp8conv.run(command)


if __name__ == "__main__":
    unittest.main()
