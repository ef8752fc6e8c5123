package formats

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"
)

// ownOf is a file for each format that is small enough to be cut at each byte.
var ownOf = map[string]string{
	"istio": "../mesh/testdata/istio-mistakes.yaml", "gateway-api": "../mesh/testdata/gateway-shop.yaml", "envoy": "../mesh/testdata/envoy-xds.json", "linkerd": "../mesh/testdata/linkerd-schlep.yaml",
	"grpc-service-config": "sc.json", "resilience4j": "../library/testdata/application.yml", "spring-properties": "../library/testdata/lines-spring-properties.properties",
	"dotnet": "../library/testdata/appsettings.json", "dapr": "../library/testdata/lines-dapr.yaml", "aws": "../library/testdata/aws.ini", "nginx": "../library/testdata/nginx.conf",
}

// A file of each format is cut at each byte: a mistake with a line, or less of it, and no panic.
func TestFilesCutAtEachByte(t *testing.T) {
	all := samples(t)
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, f := range All() {
		text := all[ownOf[f.Name]]
		if len(text) == 0 {
			t.Fatalf("%s has no file to cut", f.Name)
		}
		for n := 0; n < len(text); n += step {
			placed(t, Read(f, Source{"a", text[:n]}))
		}
	}
}

// What ends lines and begins a file does not change what it says.
func TestOtherEndsOfLines(t *testing.T) {
	all := samples(t)
	for _, f := range All() {
		text := all[ownOf[f.Name]]
		want := Read(f, Source{"a", text})
		for name, other := range map[string][]byte{
			"CRLF": bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")),
			"CR":   bytes.ReplaceAll(text, []byte("\n"), []byte("\r")),
			"BOM":  append([]byte("\ufeff"), text...),
		} {
			got := Read(f, Source{"a", other})
			if !reflect.DeepEqual(got.Routes, want.Routes) || len(got.Wrong) != len(want.Wrong) || !reflect.DeepEqual(got.Remarks, want.Remarks) {
				t.Errorf("%s with %s: %v\n%+v\n%+v", f.Name, name, got.Wrong, got.Routes, want.Routes)
			}
		}
	}
}

// UTF-16, Latin-1, NUL and tabs: mistakes with a line, and no panic.
func TestOtherEncodings(t *testing.T) {
	all := samples(t)
	for _, f := range All() {
		text := all[ownOf[f.Name]]
		for name, big := range map[string]bool{"UTF-16 LE": false, "UTF-16 BE": true} {
			var wide []byte
			for _, u := range utf16.Encode([]rune("\ufeff" + string(text))) {
				if big {
					wide = append(wide, byte(u>>8), byte(u))
				} else {
					wide = append(wide, byte(u), byte(u>>8))
				}
			}
			r := Read(f, Source{"a", wide})
			if placed(t, r); len(r.Wrong) == 0 {
				t.Errorf("%s takes %s, and reads %d routes", f.Name, name, len(r.Routes))
			}
		}
		for name, other := range map[string][]byte{
			"NUL":     append(bytes.Clone(text), "\x00\n"...),
			"Latin-1": append(bytes.Clone(text), "\xe9\n"...),
		} {
			r := Read(f, Source{"a", other})
			if placed(t, r); len(r.Wrong) == 0 {
				t.Errorf("%s takes %s", f.Name, name)
			}
		}
		tabs := Read(f, Source{"a", []byte(strings.ReplaceAll(string(text), "  ", "\t"))})
		placed(t, tabs)
	}
}
