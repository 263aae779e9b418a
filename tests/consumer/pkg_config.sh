#!/bin/sh
# pkg_config.sh CC CXX PREFIX OUT: builds and runs the consumer with nothing but the compiler and pkg-config.
set -eu
cc=$1 cxx=$2 prefix=$3 out=$4 here=$(dirname "$0")/project
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name ftar.pc)")
export PKG_CONFIG_PATH
mkdir -p "$out"
strict="-Wall -Wextra -pedantic -Werror"
flags="$(pkg-config --cflags --libs ftar) -Wl,-rpath,$(pkg-config --variable=libdir ftar)"
# shellcheck disable=SC2086  # flags are words
$cc -std=c99 $strict "$here/use.c" -o "$out/use_c" $flags
# shellcheck disable=SC2086
$cxx -std=c++17 $strict "$here/use.cc" -o "$out/use_cc" $flags
"$out/use_c"
"$out/use_cc"
