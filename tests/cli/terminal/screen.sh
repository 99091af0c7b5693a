#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What a terminal's screen shows: the bar in the middle of a job (its parts by width, a resize, signals, terminals that obey
# nothing); what is left when a command has ended; Ctrl-C in the middle of a job of several files.
need "$SAMPLES/tiny-moe"
for name in bar ends interrupt; do
	mkdir $name
	cd $name || exit
	screen $name
	cd ..
done
