# SPDX-License-Identifier: Apache-2.0
"""Checks an indexed Job against the fields that Kubernetes documents for batch/v1, and prints the command of its pods.

    job.py FILE MODEL OUT     its places replaced by MODEL and OUT
"""
import sys

import yaml

# Kubernetes, reference of the API: JobSpec, PodSpec, Container, those that the example may use.
JOB = {"completionMode", "completions", "parallelism", "backoffLimitPerIndex", "template"}
POD = {"restartPolicy", "terminationGracePeriodSeconds", "containers", "volumes"}
CONTAINER = {"name", "image", "command", "resources", "volumeMounts"}

path, model, out = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    job = yaml.safe_load(file)
spec = job["spec"]
pod = spec["template"]["spec"]
container, = pod["containers"]
for fields, known in (spec, JOB), (pod, POD), (container, CONTAINER), (job, {"apiVersion", "kind", "metadata", "spec"}):
    assert set(fields) <= known, set(fields) - known
assert (job["apiVersion"], job["kind"], spec["completionMode"]) == ("batch/v1", "Job", "Indexed")
assert pod["restartPolicy"] == "Never", "backoffLimitPerIndex asks for it"
assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
command = container["command"]
assert all(isinstance(word, str) for word in command), command
assert f"auto/{spec['completions']}" in command, command
print(" ".join({"/data/model": model, "/data/model-fp8": out}.get(word, word) for word in command))
