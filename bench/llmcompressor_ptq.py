"""llm-compressor's own path from files to files: model_free_ptq.

    llmcompressor_ptq.py MODEL OUT [SCHEME]          in an environment made from requirements.txt; FP8_BLOCK unless said

It is here to be timed, and to make files to verify; fp8conv shares nothing with it.
"""
import os
import sys

from llmcompressor import model_free_ptq


def main() -> None:
    source, target, scheme = (*sys.argv[1:], "FP8_BLOCK")[:3]
    model_free_ptq(model_stub=source, save_directory=target, scheme=scheme,
                   ignore=["lm_head", "re:.*embed_tokens"], max_workers=os.cpu_count() or 1, device="cpu")


if __name__ == "__main__":
    main()
