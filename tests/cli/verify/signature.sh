#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Every file is signed; one that changes, goes or comes is named; so is what another key signed.
need "$SAMPLES/tiny-llama" "openssl()"
cp -r "$SAMPLES/tiny-llama" model && chmod -R u+w model
for curve in prime256v1 secp384r1 secp521r1 secp256k1; do
	openssl ecparam -name $curve -genkey -noout -out $curve.pem
	openssl ec -in $curve.pem -pubout -out $curve.pub 2>/dev/null
done

# The signature by another program: openssl, over what DSSE says is signed.
check() {
	python3 - "$1" "$2" <<'PYTHON'
import base64, hashlib, json, pathlib, subprocess, sys
key, digest = sys.argv[1:]
bundle = json.load(open("out/model.sig"))
envelope = bundle["dsseEnvelope"]
payload, kind = base64.b64decode(envelope["payload"], validate=True), envelope["payloadType"].encode()
pathlib.Path("signed").write_bytes(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
pathlib.Path("sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"], validate=True))
subprocess.run(["openssl", "dgst", "-" + digest, "-verify", key, "-signature", "sig", "signed"], check=True, stdout=subprocess.DEVNULL)
hint = hashlib.sha256(pathlib.Path(key).read_bytes()).hexdigest()
if bundle["verificationMaterial"] != {"publicKey": {"hint": hint}, "tlogEntries": []}:
    print("verificationMaterial", bundle["verificationMaterial"])
statement = json.loads(payload)
is_signed = {file["name"]: file["digest"] for file in statement["predicate"]["resources"]}
there = {str(path.relative_to("out")): hashlib.sha256(path.read_bytes()).hexdigest() for path in pathlib.Path("out").rglob("*")
         if path.is_file() and path.name not in ("model.sig", ".gitattributes")}
if is_signed != there or list(is_signed) != sorted(is_signed):
    print("signed:", is_signed, "there:", there)
whole = hashlib.sha256(b"".join(bytes.fromhex(digest) for digest in is_signed.values())).hexdigest()
if statement["subject"] != [{"name": "out", "digest": {"sha256": whole}}]:
    print("subject", statement["subject"])
PYTHON
}
for curve in prime256v1:sha256 secp384r1:sha384 secp521r1:sha512; do
	"$FP8CONV" quantize model -o out --sign "${curve%:*}.pem" --quiet
	check "${curve%:*}.pub" "${curve#*:}"
	"$FP8CONV" verify out --key "${curve%:*}.pub"
done
"$FP8CONV" verify out --key prime256v1.pub | sed 's/[0-9a-f]\{16\}/HASH/g'

# A directory, hidden files and what git and the Hub leave: the job's second run signs what was added.
mkdir -p out/more/.hidden out/.git out/.cache/huggingface
echo a >out/more/.hidden/a && echo b >out/.git/b && echo c >out/.gitattributes && echo d >out/.cache/huggingface/d
"$FP8CONV" verify out --key secp521r1.pub
rm -r out/.git out/.cache
"$FP8CONV" quantize model -o out --sign secp521r1.pem --quiet
check secp521r1.pub sha512
"$FP8CONV" verify out --key secp521r1.pub

# Parts have no key; what finishes them has.
for part in 2/2 1/2; do "$FP8CONV" quantize model -o parts --max-shard-size 1M --part $part --quiet; done
"$FP8CONV" quantize model -o parts --max-shard-size 1M --part finish --sign prime256v1.pem --quiet
"$FP8CONV" verify parts --key prime256v1.pub

# One file more, a link, one less, one byte, and no length.
cp -r out damaged
echo x >damaged/.extra && ln -s config.json damaged/link && rm damaged/generation_config.json
printf '\377' | dd of=damaged/tokenizer.json bs=1 seek=7 conv=notrunc 2>/dev/null
"$FP8CONV" verify damaged --key secp521r1.pub | sed 's/[0-9a-f]\{16\}/HASH/g'
"$FP8CONV" verify damaged --key secp521r1.pub --json >j
json j 'sorted((p["kind"], p["file"]) for p in j["problems"]) == [("file-changed", "tokenizer.json"), ("file-missing", "generation_config.json"),
	("file-unlisted", ".extra"), ("file-unlisted", "link")]'

# A bundle in which one character differs is never accepted; nor is another text.
cat >broken.py <<'PYTHON'
import json, os, pathlib, random, subprocess

whole = pathlib.Path("out/model.sig").read_text()
bundle = json.loads(whole)
texts = [(bundle["dsseEnvelope"], "payload"), (bundle["dsseEnvelope"]["signatures"][0], "sig"), (bundle["dsseEnvelope"], "payloadType"),
         (bundle["verificationMaterial"]["publicKey"], "hint"), (bundle, "mediaType")]
broken = ["", "{", "[]", "{}", "null", whole[: len(whole) // 2], whole.replace('"sig"', '"gis"'), whole.replace('"payload"', '"load"')]
random.seed(1)
for place, key in texts:
    text = place[key]
    for at in random.sample(range(len(text) - 3), min(12, len(text) - 3)):
        place[key] = text[:at] + ("B" if text[at] == "A" else "A") + text[at + 1 :]
        broken.append(json.dumps(bundle))
    place[key] = text[:-1]
    broken.append(json.dumps(bundle))
    place[key] = text
for text in broken:
    pathlib.Path("out/model.sig").write_text(text)
    ran = subprocess.run([os.environ["FP8CONV"], "verify", "out", "--key", "secp521r1.pub"], capture_output=True, text=True)
    if ran.returncode != 1 or not ran.stdout.startswith("model.sig: signature: 'out/model.sig': ") or ran.stderr:
        print(text[:200], ran)
PYTHON
python3 broken.py
python3 -c "print('{\"x\": [' + ','.join(['[]'] * 20000) + ']}')" >out/model.sig
"$FP8CONV" verify out --key secp521r1.pub
rm out/model.sig
"$FP8CONV" verify out --key secp521r1.pub

# A link in the place of a file, of the Hub's cache alone, where files of a model are links to ../../blobs.
"$FP8CONV" quantize model -o out --sign secp521r1.pem --quiet
python3 - <<'PYTHON'
import hashlib, os, pathlib
blobs, snapshot = pathlib.Path("models--a--b/blobs"), pathlib.Path("models--a--b/snapshots/main")
blobs.mkdir(parents=True)
for path in pathlib.Path("out").rglob("*"):
    if path.is_file():
        blob, link = blobs / hashlib.sha256(path.read_bytes()).hexdigest(), snapshot / path.relative_to("out")
        blob.write_bytes(path.read_bytes())
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
PYTHON
"$FP8CONV" verify models--a--b/snapshots/main --key secp521r1.pub
cp -rL models--a--b/snapshots/main linked
mv linked/config.json elsewhere && ln -s ../elsewhere linked/config.json
"$FP8CONV" verify linked --key secp521r1.pub
rm -r linked && cp -rL models--a--b/snapshots/main linked
echo x >linked/.fp8conv.lock.py
"$FP8CONV" verify linked --key secp521r1.pub

# A job that changes the output takes the old signature away; a source's is not its output's.
"$FP8CONV" quantize model -o out --sign secp384r1.pem --quiet
"$FP8CONV" quantize model -o out --restart --quiet
[ ! -e out/model.sig ] || echo "the signature of the job before stays"
echo old >model/model.sig
"$FP8CONV" quantize model -o copied --quiet
[ ! -e copied/model.sig ] || echo "the source's signature is copied"

# Keys that are none, and outputs that cannot have a signature.
openssl genrsa -out rsa.pem 2>/dev/null
none="model -o none --quiet"
# shellcheck disable=SC2086
{
	fails 3 " quantize: option '--sign': the key 'secp256k1.pem' is not of the elliptic curve P-256, P-384 or P-521,*" \
		quantize $none --sign secp256k1.pem
	fails 3 " quantize: option '--sign': the key 'rsa.pem' is not of the elliptic curve *" quantize $none --sign rsa.pem
	fails 3 " quantize: option '--sign': 'prime256v1.pub' is not a private key in PEM,*" quantize $none --sign prime256v1.pub
	fails 3 " quantize: option '--sign': cannot open the key 'missing': No such file or directory" quantize $none --sign missing
	mkdir empty model/keys
	: >none.pem && cp secp384r1.pem model/keys && cp secp384r1.pem empty
	fails 3 " quantize: option '--sign': 'none.pem' is empty, not a key in PEM" quantize $none --sign none.pem
	fails 3 " quantize: option '--sign': 'empty' is a directory, not a key in PEM" quantize $none --sign empty
	fails 2 " quantize: option '--sign': the private key 'model/keys/secp384r1.pem' lies in 'model', *" \
		quantize $none --sign model/keys/secp384r1.pem
	fails 2 " quantize: option '--sign': the private key 'empty/secp384r1.pem' lies in 'model/../empty', *" \
		quantize model -o model/../empty --sign empty/secp384r1.pem
	rm -r model/keys
	fails 3 " quantize: the name of the directory * is not UTF-8: *" quantize model -o "$(printf 'o\377')" --sign secp384r1.pem
	fails 2 " quantize: options '--part', '--manifest', '--sign' and '--max-shard-size' require a directory as output,*" \
		quantize model -o one.safetensors --sign prime256v1.pem
}
mkfifo copied/pipe
fails 3 " quantize: 'copied/pipe' is no regular file, which a signature does not cover: *" quantize model -o copied --sign secp384r1.pem
rm copied/pipe
fails 3 " verify: option '--key': 'prime256v1.pem' is not a public key in PEM:*" verify copied --key prime256v1.pem
fails 2 " verify: option '--key' requires a directory, not 'out/model.safetensors'" verify out/model.safetensors --key prime256v1.pub
[ ! -e none ] || echo "a job without a key has begun"
cmp out/model.safetensors copied/model.safetensors
#1> model.sig: signature: 'out/model.sig': it was made with the key whose SHA-256 is HASH..., and 'prime256v1.pub' is HASH...
#1> more/.hidden/a: file-unlisted: the signature does not list 'out/more/.hidden/a'
#1> generation_config.json: file-missing: 'damaged/generation_config.json' is in the signature, but is not a file
#1> tokenizer.json: file-changed: 'damaged/tokenizer.json' has SHA-256 HASH..., but HASH... in the signature
#1> .extra: file-unlisted: the signature does not list 'damaged/.extra'
#1> link: file-unlisted: the signature does not list 'damaged/link'
#1> model.sig: signature: 'out/model.sig': it is no signature: it has more than 10000 values
#1> model.sig: signature: 'out/model.sig' is missing: 'fp8conv quantize --sign' or 'model_signing sign key' writes it
#1> config.json: file-changed: 'linked/config.json' is a symbolic link, and a file in the signature: 'cp -rL' copies files in the place of links
#1> .fp8conv.lock.py: file-unlisted: the signature does not list 'linked/.fp8conv.lock.py'
