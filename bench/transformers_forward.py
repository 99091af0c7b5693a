# SPDX-License-Identifier: Apache-2.0
"""The forward passes of a calibration, as transformers does them in bf16: transformers_forward.py MODEL IDS THREADS [cpu|cuda].
Prints the seconds they took, without loading."""
import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()
logging.set_verbosity_error()
device = sys.argv[4] if len(sys.argv) > 4 else "cpu"
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
torch.set_num_threads(int(sys.argv[3]))
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16).eval().to(device)
batches = [torch.tensor([json.loads(line)["input_ids"]]).to(device) for line in open(sys.argv[2])]
with torch.no_grad():
    for batch in batches[:2]:
        model(batch if device == "cuda" else batch[:, :64])
    wait()
    begin = time.monotonic()
    for batch in batches:
        model(batch)
    wait()
print(time.monotonic() - begin)
