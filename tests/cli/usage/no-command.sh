#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
exec "$FP8CONV"

#2> fp8conv: no command given (see 'fp8conv --help')
#exit 2
