"""llm-compressor's own path from files to files: model_free_ptq with the scheme FP8_BLOCK.

    llmcompressor_ptq.py MODEL OUT          in an environment made from requirements.txt

It is here to be timed; fp8conv shares nothing with it.
"""
import os
import sys

from llmcompressor import model_free_ptq


def main() -> None:
    source, target = sys.argv[1:]
    model_free_ptq(model_stub=source, save_directory=target, scheme="FP8_BLOCK",
                   ignore=["lm_head", "re:.*embed_tokens"], max_workers=os.cpu_count() or 1, device="cpu")


if __name__ == "__main__":
    main()
