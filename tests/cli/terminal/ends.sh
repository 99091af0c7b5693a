#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What the screen shows when a command has ended.
need "$SAMPLES/tiny-moe"
screen ends
