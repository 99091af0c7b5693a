#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make deps` where there is no apt-get: what is missing is named, and nothing is installed.
. "$CLI/lib.sh"
need "gcc()" "as()" "ld()" "c++()" "make()" "mandoc()" "groff()" "openssl()" "python3()"
gcc=$(command -v gcc)
case ${CC-} in *-gcc) gcc=$(command -v "$CC") ;; esac # a cross compiler, for which the libraries are there
mkdir bin
for name in sh cat as ld c++ make mandoc groff openssl python3; do
	ln -s "$(command -v "$name")" "bin/$name"
done
# A compiler that knows no cmocka.
cat >bin/gcc <<EOT
#!/bin/sh
program=\$(cat)
case \$program in *'<cmocka.h>'*) exit 1 ;; esac
printf '%s\n' "\$program" | PATH=$PATH exec $gcc "\$@"
EOT
chmod +x bin/gcc
PATH=$PWD/bin CC=$gcc sh "$CLI/../../deps.sh"
rm bin/groff
PATH=$PWD/bin CC=gcc sh "$CLI/../../deps.sh" cppcheck

#2> make deps: this system has no apt-get; install what is missing:
#2>   groff: the command
#2>   cppcheck: the command
#2>   cmocka: the header <cmocka.h> and -lcmocka
#exit 1
