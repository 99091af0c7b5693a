#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
"$FP8CONV" --version | grep -Eqx 'fp8conv [0-9]+\.[0-9]+\.[0-9]+' || "$FP8CONV" --version
