#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
exec "$FP8CONV" --help
