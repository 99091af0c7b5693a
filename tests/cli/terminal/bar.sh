#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# The bar in the middle of a job: its parts by width, a resize, signals, terminals that obey nothing.
need "$SAMPLES/tiny-moe"
screen bar
