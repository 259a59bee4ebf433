# shellcheck shell=bash disable=SC2034,SC2154
# Shared by tools/quickstart and tools/test: what they need installed, and
# building.  Sourced; the caller has set root (the source tree) and -eu.

say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "${0##*/}: $*" >&2; exit 1; }

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "needs root or sudo to run: $*"
	fi
}

installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Run quietly; the output is shown when it fails.
quietly() {
	local log
	log=$(mktemp)
	if ! "$@" </dev/null >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		return 1
	fi
	rm -f "$log"
}

# need_packages NAME...: install those that are missing, and nothing else.
need_packages() {
	local missing="" name
	if ! command -v dpkg-query >/dev/null; then
		say "not a Debian system: install what these packages hold: $*"
		return 0
	fi
	for name; do
		installed "$name" || missing="$missing $name"
	done
	[ -n "$missing" ] || return 0
	say "installing:$missing"
	# The lists may be there already: fetch them only when that fails.
	# shellcheck disable=SC2086 # a list of words
	quietly_try install_packages $missing || {
		quietly as_root apt-get -qq update || true
		quietly install_packages $missing || die "cannot install:$missing"
	}
}

install_packages() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install \
		--no-install-recommends "$@"
}

quietly_try() { quietly "$@" 2>/dev/null; }

build_packages="gcc libc6-dev meson ninja-build pkg-config libfuse3-dev fuse3
libmsgpack-dev libyajl-dev libxxhash-dev zlib1g-dev"

# build DIR OPTION...: configure when it is not, and compile.
build() {
	local dir=$1
	shift
	if [ ! -f "$dir/build.ninja" ]; then
		rm -rf "$dir"
		quietly meson setup "$dir" "$root" "$@" ||
			die "cannot configure $dir"
	fi
	quietly ninja -C "$dir" || die "cannot build $dir"
}
