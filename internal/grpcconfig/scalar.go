package grpcconfig

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/policy"
)

// maxSeconds is the longest duration of protobuf, in seconds.
const maxSeconds = 315_576_000_000

// duration reads a duration of protobuf's JSON: seconds with at most nine decimals, and s.
func (r *reader) duration(n *node, what string) (d time.Duration, ok bool) {
	if n.kind != isString {
		proposal := `write one such as "0.1s"`
		if n.kind == isNumber && isDigits(strings.Replace(n.text, ".", "", 1)) {
			proposal = `write "` + clip(n.text) + `s" for seconds`
		}
		r.wrong(n, what+" wants a duration, not "+named(n), proposal)
		return 0, false
	}
	seconds, unit := strings.CutSuffix(n.text, "s")
	rest, negative := strings.CutPrefix(seconds, "-")
	whole, part, _ := strings.Cut(rest, ".")
	switch {
	case !unit && isDigits(strings.Replace(n.text, ".", "", 1)):
		r.wrong(n, what+": "+quoted(n.text)+" has no unit", `write "`+clip(n.text)+`s" for seconds`)
	case !unit || whole+part == "" || strings.Trim(whole+part, "0123456789") != "":
		r.noDuration(n, what, rest)
	case len(part) > 9:
		r.wrong(n, what+": "+quoted(n.text)+" has more than nine decimals", "write whole nanoseconds")
	case beyond(whole):
		r.wrong(n, what+": "+quoted(n.text)+" is too long", "write what the call can wait for")
	default:
		if d = reckon(whole, part); negative {
			d = -d
		}
		return d, true
	}
	return 0, false
}

// noDuration says what to write instead of a bad duration. grpc-go takes signs in places where a
// number has none.
func (r *reader) noDuration(n *node, what, rest string) {
	proposal := `write seconds, such as "0.1s"`
	if meant, err := time.ParseDuration(n.text); err == nil && meant > 0 {
		proposal = "gRPC writes " + quoted(seconds(meant))
	}
	signs := strings.ContainsAny(rest, "+-")
	r.fail(n.at, r.ours || signs, what+": "+quoted(n.text)+" is not a duration", proposal)
}

func beyond(whole string) bool {
	n, err := strconv.ParseInt(whole, 10, 64)
	return whole != "" && (err != nil || n > maxSeconds)
}

// reckon saturates at the longest duration of Go.
func reckon(whole, part string) time.Duration {
	sec, _ := strconv.ParseInt("0"+whole, 10, 64)
	ns, _ := strconv.ParseInt((part + "000000000")[:9], 10, 64)
	if sec >= math.MaxInt64/int64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(sec)*time.Second + time.Duration(ns)
}

// codes reads a list of status codes. What no answer of a dependency says is left out.
func (r *reader) codes(n *node, what string) (list []policy.GRPCCode) {
	for _, item := range r.list(n, what) {
		code, ok := r.code(item, what)
		switch {
		case !ok || slices.Contains(list, code):
		case code == grpccode.OK:
			r.note(item.at, false, what+": OK is no failure, so nothing retries it", "leave it out")
		case code == grpccode.Cancelled:
			r.note(item.at, false, what+": gabion does not retry CANCELLED: the caller gave up", "leave it out")
		default:
			list = append(list, code)
		}
	}
	return list
}

func (r *reader) code(n *node, what string) (code policy.GRPCCode, ok bool) {
	switch {
	case n.kind == isNull:
		r.stricter(n, what+": null is no gRPC code", "leave it out")
		return 0, false
	case n.kind == isNumber:
		if v, err := strconv.ParseUint(n.text, 10, 32); err == nil && v < uint64(len(codeNames)) {
			return policy.GRPCCode(v), true
		}
		r.wrong(n, what+": "+clip(n.text)+" is no gRPC code", "write one from CANCELLED (1) to UNAUTHENTICATED (16), better by its name")
		return 0, false
	case n.kind != isString:
		r.wrong(n, what+" wants codes, not "+named(n), `write names such as "UNAVAILABLE"`)
		return 0, false
	}
	for i, name := range codeNames {
		if !strings.EqualFold(n.text, name) {
			continue
		}
		if r.document.text[n.at:n.end] != `"`+name+`"` {
			r.note(n.at, true, what+": grpc-go refuses "+clip(r.document.text[n.at:n.end])+", other languages take it", `write "`+name+`"`)
		}
		return policy.GRPCCode(i), true
	}
	proposal := suggest.For(n.text, codeNames, "codes are "+strings.Join(codeNames[1:], ", "))
	if v, err := strconv.Atoi(n.text); err == nil && v >= 0 && v < len(codeNames) {
		proposal = `write "` + codeNames[v] + `"`
	}
	r.wrong(n, what+": "+quoted(n.text)+" is no gRPC code", proposal)
	return 0, false
}

// codeNames are the names of all codes, by their numbers.
var codeNames = func() (names []string) {
	for code := grpccode.OK; code <= grpccode.Unauthenticated; code++ {
		names = append(names, code.String())
	}
	return names
}()
