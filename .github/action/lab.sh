#!/usr/bin/env bash
# Plays a policy file against that of a baseline in the lab, for a pull request. All that it
# is told comes in variables, so that nothing of it becomes code:
#
#   CONFIG        the policy file, from the root of the repository
#   SCENARIOS     names and files of scenarios, with spaces or lines between them
#   BASELINE      the commit whose policy file it is compared with; empty means none
#   DEPENDENCIES  those to try, with spaces between them; empty means all of CONFIG
#   REPLICATIONS  how many runs; empty means what each scenario says
#   OUT           the folder for what is written
#   GABION        the program; empty means to build or install one
#   VERSION       of the program to install; empty means to build it from SOURCE
#   SOURCE        a checkout of gabion
#
# It exits with 1 when an assertion fails or a file has mistakes, and with 2 when it could
# not find out.
set -uo pipefail

OUT=${OUT:-gabion-lab}
CONFIG=${CONFIG:-gabion.yaml}
SCENARIOS=${SCENARIOS:-}
BASELINE=${BASELINE:-}
DEPENDENCIES=${DEPENDENCIES:-}
REPLICATIONS=${REPLICATIONS:-}
failed=0 broken=0 all=0

# say writes an annotation of the kind $1. Its text may hold no command.
say() {
	local text=$2
	text=${text//'%'/'%25'} text=${text//$'\r'/'%0D'} text=${text//$'\n'/'%0A'}
	echo "::$1::$text"
}

stop() {
	say error "$1"
	exit 2
}

# program makes sure that there is a GABION.
program() {
	[ -z "${GABION:-}" ] || return 0
	GABION=$OUT/bin/gabion
	mkdir -p "$OUT/bin"
	if [ -n "${VERSION:-}" ]; then
		GOWORK=off GOBIN=$(cd "$OUT/bin" && pwd) go install "github.com/gabion-go/gabion/cmd/gabion@$VERSION" || stop "gabion $VERSION can't be installed"
	else
		local to
		to=$(cd "$OUT/bin" && pwd)/gabion
		GOWORK=off go -C "${SOURCE:?}/cmd/gabion" build -o "$to" . || stop "gabion can't be built"
	fi
}

# baseline writes the policy file of the baseline to $base, or leaves $base empty.
baseline() {
	base=
	[ -n "$BASELINE" ] || return 0
	if ! git cat-file -e "$BASELINE^{commit}" 2>/dev/null; then # a shallow checkout has one commit
		git fetch --quiet --no-tags --depth=1 origin "$BASELINE" || stop "the baseline $BASELINE is not there: check out with fetch-depth: 0"
	fi
	local commit
	commit=$(git rev-parse --verify --quiet "$BASELINE^{commit}") || commit=$(git rev-parse FETCH_HEAD) || stop "the baseline $BASELINE is no commit"
	if ! git cat-file -e "$commit:./$CONFIG" 2>/dev/null; then
		say notice "$CONFIG is new: it is compared with the plain client"
		return 0
	fi
	base=$OUT/base/$(basename "$CONFIG")
	mkdir -p "$OUT/base"
	git show "$commit:./$CONFIG" >"$base" || stop "$CONFIG of $BASELINE can't be read"
	if ! "$GABION" config check "$base" >"$OUT/check.txt" 2>&1; then
		say warning "$CONFIG of the baseline has mistakes, so it is compared with the plain client: $(cat "$OUT/check.txt")"
		base=
	fi
}

# names prints the dependencies of a policy file.
names() { "$GABION" config print -f "$1" | sed -n "s/^  '\{0,1\}\([A-Za-z0-9][A-Za-z0-9._-]*\)'\{0,1\}:\$/\1/p"; }

# has says whether a word is a line of a text.
has() { grep -qxF -- "$2" <<<"$1"; }

# play runs one scenario with one dependency; an empty one leaves the scenario's names.
play() {
	local scenario=$1 dependency=$2 against=plain args=() name
	local label
	label=$(basename "${scenario%.*}")${dependency:+--$dependency}
	for name in $policies; do
		[ -z "$dependency" ] || args+=(--as "$name=$dependency")
	done
	if [ -n "$base" ] && { [ -z "$dependency" ] || has "$before" "$dependency"; }; then
		against=$base
	fi
	[ -z "$REPLICATIONS" ] || args+=(--replications "$REPLICATIONS")
	all=$((all + 1))
	echo "::group::$label"
	"$GABION" lab run "$scenario" --config "$CONFIG" --against "$against" ${args[@]+"${args[@]}"} \
		--markdown "$OUT/part.md" --junit "$OUT/junit/$label.xml" 2>"$OUT/stderr.txt"
	local code=$?
	cat "$OUT/stderr.txt" >&2
	echo "::endgroup::"
	if [ -f "$OUT/part.md" ]; then
		cat "$OUT/part.md" >>"$OUT/summary.md"
		echo >>"$OUT/summary.md"
		rm -f "$OUT/part.md"
	fi
	case $code in
	0) ;;
	1)
		failed=$((failed + 1))
		if [ -f "$OUT/junit/$label.xml" ]; then
			say error "$label: an assertion fails; $OUT/summary.md has the numbers"
		else
			say error "$label: $(cat "$OUT/stderr.txt")"
		fi
		;;
	*)
		broken=$((broken + 1))
		say error "$label can't be played: $(cat "$OUT/stderr.txt")"
		;;
	esac
}

# scenario plays one with the names that it calls by, if the policy file has all of them,
# and else once with each dependency in their place.
scenario() {
	local name missing=
	if ! policies=$("$GABION" lab show "$1" --policies 2>"$OUT/stderr.txt"); then
		say error "$1: $(cat "$OUT/stderr.txt")"
		failed=$((failed + 1))
		return
	fi
	for name in $policies; do
		has "$after" "$name" || missing=1
	done
	if [ -z "$missing" ] && [ -z "$DEPENDENCIES" ]; then
		play "$1" ""
		return
	fi
	for name in ${DEPENDENCIES:-$after}; do
		play "$1" "$name"
	done
}

rm -rf "$OUT/junit" "$OUT/summary.md" "$OUT/part.md" "$OUT/base"
mkdir -p "$OUT/junit"
program
if ! "$GABION" config check "$CONFIG" >"$OUT/check.txt" 2>&1; then
	cat "$OUT/check.txt" >&2
	say error "$(cat "$OUT/check.txt")"
	exit 1
fi
baseline
after=$(names "$CONFIG") before=
[ -z "$base" ] || before=$(names "$base")
[ -n "$after" ] || stop "$CONFIG has no dependencies"
: >"$OUT/summary.md"
set -f # a scenario's name is a name, and no pattern
for one in $SCENARIOS; do
	scenario "$one"
done
[ "$((all + failed))" -gt 0 ] || stop "no scenario is named"

if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then # which takes at most a mebibyte
	if [ "$(wc -c <"$OUT/summary.md")" -lt 1000000 ]; then
		cat "$OUT/summary.md" >>"$GITHUB_STEP_SUMMARY"
	else
		echo "The summary is too long for this page: see $OUT/summary.md" >>"$GITHUB_STEP_SUMMARY"
	fi
fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then
	printf 'markdown=%s\njunit=%s\nfailed=%s\n' "$OUT/summary.md" "$OUT/junit" "$failed" >>"$GITHUB_OUTPUT"
fi
rm -f "$OUT/stderr.txt" "$OUT/check.txt"
[ "$broken" -eq 0 ] || exit 2
[ "$failed" -eq 0 ] || exit 1
