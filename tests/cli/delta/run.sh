#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
need "$SAMPLES/tiny-llama" "$SAMPLES/tiny-moe"

# applied OLD NEW: the delta between them makes NEW of OLD, beside it and in place, byte for byte, and again is no change.
applied() {
	rm -rf d.safetensors made placed
	"$FP8CONV" delta "$1" "$2" -o d.safetensors
	"$FP8CONV" apply "$1" d.safetensors -o made
	diff -r "$2" made
	cp -r "$1" placed
	"$FP8CONV" apply placed d.safetensors --in-place
	diff -r "$2" placed
	snapshot placed >before
	"$FP8CONV" apply placed d.safetensors --in-place --quiet
	"$FP8CONV" apply "$1" d.safetensors -o made --quiet
	snapshot placed | cmp before -
}

cp -r "$SAMPLES/tiny-llama" model && chmod -R u+w model
"$FP8CONV" quantize model -o old --recipe blockwise --target transformers
cp -r old new
name=model.layers.2.mlp.up_proj
python3 "$CLI/checkpoint.py" flip new/model.safetensors $name.weight 1000
python3 "$CLI/checkpoint.py" flip new/model.safetensors $name.weight -1
python3 "$CLI/checkpoint.py" flip new/model.safetensors $name.weight_scale_inv 2
"$FP8CONV" delta old new -o D.safetensors --json >j
json j 'j["changed"] == 2 and j["elements"] == 3 and j["files"] == 0 and not j["already_applied"]' \
	'j["delta_bytes"] < 12000 and j["tensors"] == 66'
applied old new
"$FP8CONV" apply placed D.safetensors --in-place 2>&1

"$FP8CONV" inspect D.safetensors
python3 "$CLI/terminal.py" "$FP8CONV" inspect D.safetensors | sed 's/[0-9a-f]\{64\}/DIGEST/'
"$FP8CONV" inspect D.safetensors --summary | tail -n 1
"$FP8CONV" inspect D.safetensors --json >k
python3 -c 'import json; j, k = json.load(open("j")), json.load(open("k")); assert (j["base"], j["result"]) == (k["base"], k["result"]), k'
"$FP8CONV" verify D.safetensors --base old

# Any number of threads gives the same file; an old delta is replaced, another file is not.
"$FP8CONV" delta old new -o one.safetensors --threads 1
"$FP8CONV" delta old new -o one.safetensors --threads 5
cmp one.safetensors D.safetensors
cp new/model.safetensors other.safetensors
fails 2 " delta: 'other.safetensors' exists and is not a delta: choose another output or remove it" delta old new -o other.safetensors

# Nothing, one job after another, another format, another model, other distribution over files.
applied old old
"$FP8CONV" quantize model -o channels --recipe channelwise --target vllm
"$FP8CONV" repack old -o packed --format compressed-tensors
applied old channels
applied channels old
applied old packed
"$FP8CONV" quantize "$SAMPLES/tiny-moe/per-expert" -o experts --recipe blockwise --ragged
applied old experts
applied experts old
"$FP8CONV" quantize model -o split --recipe blockwise --max-shard-size 400K
applied old split
applied split old

# Every kind of row: one element, few, many, all; types of 1 to 8 bytes and of 4 bits; empty, new, gone and reshaped tensors.
python3 - <<'END'
import os, random, checkpoint
random.seed(1)
def tensors(share, late):
    r, out = random.Random(2), {}
    for dtype, size in (("F8_E4M3", 1), ("U8", 1), ("BF16", 2), ("F32", 4), ("I64", 8), ("F4", 1)):
        n = 5000
        data = bytearray(r.randbytes(n * size))
        for i in range(n):
            if late and random.random() < share:
                data[i * size] ^= 1 + random.randrange(255)
        out[f"a.{dtype}"] = (dtype, [n * 2 if dtype == "F4" else n], bytes(data))
    far = bytearray(9 << 20)
    if late:
        for at in (0, 70000, 5 << 20, (9 << 20) - 1):
            far[at] = 7
    return out | {"far": ("F8_E4M3", [9 << 10, 1 << 10], bytes(far)), "empty": ("F32", [0, 3], b""),
                  "same": ("I64", [2], b"0123456789abcdef"), "far._extra_state": ("U8", [3], b"ab" + b"cd"[late:late + 1])}
for at, share in enumerate((0.01, 0.3, 0.99)):
    for late in (0, 1):
        folder = ("x", "y")[late] + str(at)
        os.mkdir(folder)
        t = tensors(share, late)
        if late:
            del t["same"]
            t |= {"reshaped": ("F32", [3], b"x" * 12), "new\u00e9": ("BF16", [1, 2, 3], b"y" * 12)}
        else:
            t |= {"reshaped": ("F32", [3, 1], b"x" * 12), "gone": ("F32", [2], b"z" * 8)}
        checkpoint.write(folder + "/model.safetensors", t)
        os.mkdir(folder + "/sub")
        open(folder + "/sub/empty.txt", "w").write("")
        open(folder + f"/sub/{late}.txt", "w").write("a" * late)
END
for i in 0 1 2; do
	applied x$i y$i
done
applied y0 x0

# Another base, and a delta out of order: both digests, and nothing changes.
cp -r new newer
python3 "$CLI/checkpoint.py" flip newer/model.safetensors $name.weight 7
"$FP8CONV" delta new newer -o E.safetensors
cp -r old base
snapshot base >before
fails 3 " apply: the tensors of 'base' have SHA-256 [0-9a-f]*, but 'E.safetensors' applies to [0-9a-f]*: apply it to the checkpoint that it was made from" apply base E.safetensors --in-place
fails 3 " verify: the tensors of 'base' have SHA-256 *, but 'E.safetensors' applies to *" verify E.safetensors --base base
fails 2 " verify: 'D.safetensors' is a delta: give the checkpoint that it applies to by option '--base'" verify D.safetensors
fails 2 " verify: options '--base' and '--source' cannot be combined: apply the delta, and verify the result" \
	verify D.safetensors --base old --source model
fails 2 " inspect: option '--stats' is for checkpoints, but 'D.safetensors' is a delta: apply it, and inspect the result" \
	inspect D.safetensors --stats
fails 3 " apply: 'old' is a directory, not a delta: give the checkpoint first, and then a file of 'fp8conv delta'" apply D.safetensors old -o nothing
# A delta may have any name.
cp D.safetensors D.delta && "$FP8CONV" delta old new -o D.delta && cmp D.safetensors D.delta
"$FP8CONV" inspect D.safetensors >shown && "$FP8CONV" inspect D.delta | cmp - shown
fails 2 " verify: 'D.delta' is a delta: give the checkpoint that it applies to by option '--base'" verify D.delta
fails 3 " verify: 'old/model.safetensors' is not a delta, *" verify old/model.safetensors --base old
fails 3 " apply: the tensors of 'packed' have SHA-256 *" apply packed D.safetensors --in-place
fails 3 " apply: the tensors of 'x1' have SHA-256 *" apply x1 D.safetensors -o nothing
[ ! -e nothing ] || echo "a directory is left"
echo x >>base/train.py
fails 3 " apply: file 'train.py' of 'base' has SHA-256 *, but 'D.safetensors' applies to *: restore the file" apply base D.safetensors --in-place
cp -p old/train.py base/
snapshot base | cut -d' ' -f1-3 >after
cut -d' ' -f1-3 before | cmp after -
"$FP8CONV" apply base D.safetensors --in-place
"$FP8CONV" apply base E.safetensors --in-place
diff -r newer base

# A link, and a second name, are replaced: what they lead to stays.
mkdir hub linked && cp -r old/* hub/ && (cd linked && ln -s ../hub/* .)
cp -rl hub twice
"$FP8CONV" apply linked D.safetensors --in-place
"$FP8CONV" apply twice D.safetensors --in-place
diff -r hub old
diff -r linked new
diff -r twice new

# Names that the file cannot have, of what changed and of what is gone.
for i in 0 1 2; do
	cp -r old odd$i
done
python3 - <<'END'
import os
open("odd0/a\tb.txt", "w")
open(b"odd1/\xff.txt", "w")
os.rename("odd2/model.safetensors", b"odd2/\xff.safetensors")
END
fails 3 " delta: the name of 'a?b.txt' contains a control character: rename it" delta old odd0 -o x.safetensors
fails 3 " delta: the name of 'a?b.txt' contains a control character: rename it" delta odd0 old -o x.safetensors
fails 3 " delta: the name of '*.txt' is not UTF-8: rename it" delta odd1 old -o x.safetensors
fails 3 " delta: the name of '*.safetensors' is not UTF-8: rename it" delta old odd2 -o x.safetensors
[ ! -e x.safetensors ] || echo "a delta is left"

# What cannot be.
fails 2 " apply: give one of the options '--output' (-o NEW) and '--in-place'" apply old D.safetensors
fails 2 " apply: give one of the options '--output' (-o NEW) and '--in-place'" apply old D.safetensors -o x --in-place
fails 2 " apply: 2 arguments are expected, but 1 given: give OLD and D.safetensors" apply old --in-place
fails 2 " apply: base and output are the same directory 'old/': give option '--in-place' to change it" apply old D.safetensors -o old/
fails 2 " apply: 'model' is not empty: give another output, or remove it" apply old D.safetensors -o model
fails 2 " delta: 2 checkpoints are compared, but 3 given: give OLD and NEW" delta old new new -o x.safetensors
fails 2 " delta: option '--output' is missing: give an output file (-o D.safetensors)" delta old new
fails 2 " delta: 'old/model.safetensors' is a single file: give the directory of a checkpoint" delta old/model.safetensors new -o x.safetensors
fails 3 " apply: 'old/model.safetensors' is not a delta, *" apply old old/model.safetensors --in-place
fails 3 "*nowhere*" apply old nowhere.safetensors --in-place
fails 3 " apply: 'nowhere' is not a directory: give that of the checkpoint" apply nowhere D.safetensors --in-place

# A damaged file: flipped bits and cut ends; nothing changes, or the result is right.
python3 - <<'END'
import os, re, shutil, subprocess
program, data = os.environ["FP8CONV"], open("D.safetensors", "rb").read()
places = [*range(0, 400, 50), *range(4096, len(data), 1 + (len(data) - 4096) // 30)]
def run(damaged, what):
    open("bad.safetensors", "wb").write(damaged)
    shutil.rmtree("out", ignore_errors=True)
    done = subprocess.run([program, "apply", "old", "bad.safetensors", "-o", "out", "--quiet"], capture_output=True, text=True)
    if done.returncode == 0 and not subprocess.run(["diff", "-r", "out", "new"]).returncode:
        return
    if done.returncode != 3 or done.stderr.count("\n") != 1 or os.path.exists("out") or not re.search(r"^fp8conv apply: header of|: (copy or|apply it to|make one by) |no data_offsets", done.stderr):
        print(what, done.returncode, done.stderr)
for at in places:
    run(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:], f"byte {at}")
for at in places[::5]:
    run(data[:at], f"length {at}")
END

# What a terminal shows: files that are removed too, and the command that comes next.
rm new/train.py
python3 "$CLI/terminal.py" "$FP8CONV" delta old new -o F.safetensors --progress none | tr -d '\r' | grep -v '^delta '

# A delta has no option '--from-torch'.
mkdir pickles && : >pickles/pytorch_model.bin
fails 3 " delta: found no .safetensors file in 'pickles', but 'pytorch_model.bin', a pickle of PyTorch: a delta is of .safetensors files, so save it as such first" \
	delta old pickles -o G.safetensors
exit 0
#1> fp8conv apply: note: 'D.safetensors' is already applied to 'placed'
#1> model.layers.2.mlp.up_proj.weight_scale_inv	F32	[2, 1]	1	50
#1> model.layers.2.mlp.up_proj.weight	F8_E4M3	[256, 128]	2	0.00610351562
#1> tensor                                       changed     share
#1> model.layers.2.mlp.up_proj.weight_scale_inv        1      50 %
#1> model.layers.2.mlp.up_proj.weight                  2  0.0061 %
#1> base    DIGEST
#1> result  DIGEST
#1> 2 of 66 tensors change, 3 elements; other files: 0 changed, 0 removed
#1> 2 of 66 tensors change, 3 elements; other files: 0 changed, 0 removed
#1> changed    2 of 66 tensors, 3 elements, 0 files
#1> removed    1 file
#1> output     F.safetensors
#1> next       fp8conv apply old F.safetensors -o NEW
#2> fp8conv apply: note: 'd.safetensors' is already applied to 'placed'
