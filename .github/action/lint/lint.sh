#!/usr/bin/env bash
# Looks at policy files and writes annotations. All that it is told comes in variables, so
# that nothing of it becomes code:
#
#   FILES     the policy files, one on each line
#   SEVERITY  the mildest finding that is shown and fails; empty means warnings fail
#   RULES     only these; empty means all
#   SARIF     a file for SARIF; empty means none
#   GABION    the program; empty means to build or install one
#   VERSION   of the program to install; empty means to build it from ACTION's checkout
#   ACTION    the folder of this script
#
# It exits as gabion lint does: 1 with findings, 2 if it was told something wrong, 3 if it
# could not find out.
set -uo pipefail

# stop writes an annotation with an error, and ends. Its text may hold no command.
stop() {
	local text=$2
	text=${text//'%'/'%25'} text=${text//$'\r'/'%0D'} text=${text//$'\n'/'%0A'}
	echo "::error::$text"
	exit "$1"
}

# program makes sure that there is a GABION.
program() {
	[ -z "${GABION:-}" ] || return 0
	local to
	to=$(mktemp -d) || stop 3 "there is no place for the program"
	GABION=$to/gabion
	if [ -n "${VERSION:-}" ]; then
		GOWORK=off GOBIN=$to go install "github.com/gabion-go/gabion/cmd/gabion@$VERSION" || stop 3 "gabion $VERSION can't be installed"
	else
		GOWORK=off go -C "${ACTION:?}/../../../cmd/gabion" build -o "$GABION" . || stop 3 "gabion can't be built"
	fi
}

files=() args=()
while IFS= read -r line; do
	line=${line%$'\r'}
	# A name that begins with a dash is a name, and standard input is no file.
	case $line in '') ;; -*) files+=("./$line") ;; *) files+=("$line") ;; esac
done <<<"${FILES:-}"
[ "${#files[@]}" -gt 0 ] || stop 2 "no file is named"
[ -z "${SEVERITY:-}" ] || args+=("--severity=$SEVERITY")
[ -z "${RULES:-}" ] || args+=("--rules=$RULES")
program

problems=$(mktemp)
trap 'rm -f "$problems"' EXIT
"$GABION" lint --format github ${args[@]+"${args[@]}"} "${files[@]}" 2>"$problems"
code=$?
if [ -s "$problems" ]; then
	cat "$problems" >&2
	[ "$code" -le 1 ] || (stop "$code" "$(head -n 5 "$problems")")
fi
if [ -n "${SARIF:-}" ] && [ "$code" -le 1 ]; then
	"$GABION" lint --format sarif ${args[@]+"${args[@]}"} "${files[@]}" >"$SARIF" 2>/dev/null
	[ $? -le 1 ] || stop 3 "$SARIF can't be written"
	[ -z "${GITHUB_OUTPUT:-}" ] || printf 'sarif=%s\n' "$SARIF" >>"$GITHUB_OUTPUT"
fi
exit "$code"
