#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make two English texts for calibration and evaluation: calibration.txt (about 300 KB) and
# eval.txt (about 150 KB), which share no page.  Plain prose, one paragraph per block, UTF-8.
#
# Source: Debian's package debian-handbook ("The Debian Administrator's Handbook", GPL-2+ or
# CC-BY-SA 3.0), version 11.20220922 (Debian 12).  Every third page goes to eval.txt, the others
# to calibration.txt; paragraphs shorter than 120 bytes are left out.  Same bytes on every run;
# another version of the package is used with a warning.
#
# Needs apt-get and dpkg-deb (or the .deb as second argument, and dpkg-deb), perl-base.
#
#     corpus.sh OUT [debian-handbook.deb]
set -eu
export LC_ALL=C

version=11.20220922
sums='befb0a14b0fc5c4620dc58f5037c5317b05aa418be1cdf5472122ad5468e3c1c  calibration.txt
68d6b868fa05eb5e8c2188f529c534ada4f106312998f696b33d455aa9f3786b  eval.txt'

[ $# -ge 1 ] || { echo "usage: corpus.sh OUT [debian-handbook.deb]" >&2; exit 2; }
out=$1
mkdir -p "$out"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

if [ $# -ge 2 ]; then
	cp "$2" "$tmp/handbook.deb"
else
	(cd "$tmp" && { apt-get -q download "debian-handbook=$version" || apt-get -q download debian-handbook; } &&
		mv debian-handbook_*.deb handbook.deb) >&2
fi
found=$(dpkg-deb -f "$tmp/handbook.deb" Version)
[ "$found" = "$version" ] || echo "corpus.sh: warning: debian-handbook $found, expected $version" >&2
dpkg-deb -x "$tmp/handbook.deb" "$tmp"

perl - "$out" "$tmp"/usr/share/doc/debian-handbook/html/en-US/*.html <<'PERL'
use strict; use warnings;

my ($out, @pages) = @ARGV;
my %limit = ("calibration.txt" => 300_000, "eval.txt" => 150_000);
my %text  = ("calibration.txt" => "", "eval.txt" => "");
my %entity = (lt => "<", gt => ">", amp => "&", quot => '"', apos => "'", nbsp => " ");
my (%seen, %full);

sub paragraphs {	# <div class="para">, up to the next block element
	my ($html) = @_;
	my @found;
	while ($html =~ m{<div class="para">(.*?)(?=</?(?:div|ul|ol|dl|pre|table|h\d)\b)}sg) {
		my $p = $1;
		$p =~ s/<[^>]*>//g;
		$p =~ s/&#(\d+);/my $c = chr $1; utf8::encode($c); $c/ge;
		$p =~ s/&(\w+);/$entity{$1} \/\/ ""/ge;
		$p =~ s/\xC2\xA0/ /g;
		$p =~ s/\s+/ /g;
		$p =~ s/^ | $//g;
		push @found, $p if length $p >= 120 && !$seen{$p}++;
	}
	return @found;
}

for my $i (0 .. $#pages) {
	my $name = $i % 3 == 2 ? "eval.txt" : "calibration.txt";
	open my $in, "<:raw", $pages[$i] or die "$pages[$i]: $!\n";
	my $html = do { local $/; <$in> };
	for my $p (paragraphs($html)) {
		next if $full{$name} ||= length("$text{$name}$p\n\n") > $limit{$name};
		$text{$name} .= "$p\n\n";
	}
}
for my $name (sort keys %text) {
	open my $file, ">:raw", "$out/$name" or die "$out/$name: $!\n";
	print $file $text{$name} or die "$out/$name: $!\n";
	close $file or die "$out/$name: $!\n";
}
PERL

(cd "$out" && echo "$sums" | sha256sum --check --quiet) ||
	echo "corpus.sh: warning: other bytes than with $version" >&2
