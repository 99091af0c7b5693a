#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# date.sh: prints the time of the sources, in seconds since 1970: SOURCE_DATE_EPOCH, or that of the commit.  In an archive
# of the sources git has written the latter here (.gitattributes).
set -eu
cd "$(dirname "$0")"
# shellcheck disable=SC2016
archived='$Format:%ct$'
case ${SOURCE_DATE_EPOCH:-$archived} in
*Format*) exec git log -1 --format=%ct ;;
*) echo "${SOURCE_DATE_EPOCH:-$archived}" ;;
esac
