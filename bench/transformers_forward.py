# SPDX-License-Identifier: Apache-2.0
"""The forward passes of a calibration, as transformers does them in bf16: transformers_forward.py MODEL IDS THREADS.
Prints the seconds they took, without loading."""
import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()
logging.set_verbosity_error()
torch.set_num_threads(int(sys.argv[3]))
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16).eval()
batches = [torch.tensor([json.loads(line)["input_ids"]]) for line in open(sys.argv[2])]
with torch.no_grad():
    model(batches[0][:, :64])
    begin = time.monotonic()
    for batch in batches:
        model(batch)
print(time.monotonic() - begin)
