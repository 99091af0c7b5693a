#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Ctrl-C in the middle of a job of several files.
screen interrupt
