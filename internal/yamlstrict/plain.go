package yamlstrict

import (
	"reflect"
	"strconv"
	"strings"
)

// plain reads the kinds that have no spelling of their own.
func plain(t reflect.Type) Scalar {
	switch t.Kind() {
	case reflect.Bool:
		return Scalar{Words: []string{"true", "false"}, Parse: parseBool}
	case reflect.Int:
		return Scalar{Parse: parseInt}
	case reflect.Float64:
		return Scalar{Parse: parseFloat}
	case reflect.String:
		return Scalar{Parse: func(s string) (any, string, string) { return s, "", "" }}
	}
	return Scalar{Parse: func(string) (any, string, string) { return nil, "can't be set in a file", "leave it out" }}
}

func parseBool(s string) (any, string, string) {
	switch s {
	case "true", "false":
		return s == "true", "", ""
	case "yes", "on":
		return nil, "is not true or false", "write true"
	case "no", "off":
		return nil, "is not true or false", "write false"
	}
	return nil, "is not true or false", "write true or false"
}

const zeroProblem, zeroProposal = "would mean the default", "leave the key out, or write off"

func parseInt(s string) (any, string, string) {
	if s == "off" {
		return -1, "", ""
	}
	n, err := strconv.Atoi(s)
	switch {
	case err == nil && n == 0:
		return nil, zeroProblem, zeroProposal
	case err != nil || strconv.Itoa(n) != s:
		return nil, "is not a whole number", "write digits only, such as 3"
	case n < 0:
		return nil, "is negative", zeroProposal
	}
	return n, "", ""
}

func parseFloat(s string) (any, string, string) {
	if s == "off" {
		return -1.0, "", ""
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || strings.Trim(strings.TrimPrefix(s, "-"), "0123456789.") != "":
		return nil, "is not a number", "write one such as 1.5"
	case f == 0:
		return nil, zeroProblem, zeroProposal
	case f < 0:
		return nil, "is negative", zeroProposal
	}
	return f, "", ""
}
