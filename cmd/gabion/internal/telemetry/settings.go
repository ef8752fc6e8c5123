// Package telemetry makes OpenTelemetry's traces and metrics of gabion proxy, as the usual variables of the environment say.
package telemetry

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// settings are what the variables say. The SDK and its exporters read most of them by themselves, but take another value
// where one is wrong, and say so in a log at best. So all are checked before.
type settings struct {
	traces, metrics []string // exporters; none means that there are no traces, or no metrics
	propagators     []string
	logs            bool // asked for, and not there
}

// The variables that switch something on. Without them all others mean nothing.
const (
	tracesExporter  = "OTEL_TRACES_EXPORTER"
	metricsExporter = "OTEL_METRICS_EXPORTER"
	otlp            = "OTEL_EXPORTER_OTLP_"
)

// read returns nil where nothing is switched on. The error has all that is wrong.
func read(get func(string) string) (*settings, error) {
	r := reader{get: func(name string) string { return strings.TrimSpace(get(name)) }}
	if r.truth("OTEL_SDK_DISABLED") {
		return nil, nil
	}
	s := &settings{traces: r.exporters(tracesExporter, "TRACES_"), metrics: r.exporters(metricsExporter, "METRICS_")}
	if len(s.traces)+len(s.metrics) == 0 {
		return nil, errors.Join(r.wrong...)
	}
	s.propagators = r.list("OTEL_PROPAGATORS", "tracecontext,baggage", "tracecontext", "baggage", "b3", "b3multi", none)
	s.logs = !slices.Contains([]string{"", none}, r.get("OTEL_LOGS_EXPORTER"))
	r.sampler()
	for _, kind := range []string{"", "TRACES_", "METRICS_"} {
		if kind == "" || slices.Contains(map[string][]string{"TRACES_": s.traces, "METRICS_": s.metrics}[kind], "otlp") {
			r.otlp(otlp + kind)
		}
	}
	for _, name := range numbers {
		r.number(name)
	}
	return s, errors.Join(r.wrong...)
}

const none = "none"

// numbers are whole numbers above zero, most of them milliseconds.
var numbers = []string{
	"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
	"OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT",
}

// reader gathers what is wrong.
type reader struct {
	get   func(string) string
	wrong []error
}

func (r *reader) is(name, value, says string) {
	r.wrong = append(r.wrong, fmt.Errorf("%s=%s: %s", name, value, says))
}

func (r *reader) truth(name string) bool {
	switch value := r.get(name); strings.ToLower(value) {
	case "true":
		return true
	case "", "false":
	default:
		r.is(name, value, "write true or false")
	}
	return false
}

// list reads words that are separated by commas. None stands alone, and is an empty list.
func (r *reader) list(name, missing string, known ...string) (all []string) {
	value := r.get(name)
	if value == "" {
		value = missing
	}
	for word := range strings.SplitSeq(value, ",") {
		switch word = strings.TrimSpace(word); {
		case word == "":
		case !slices.Contains(known, word):
			r.is(name, value, fmt.Sprintf("%q is not known here; known are %s", word, strings.Join(known, ", ")))
		default:
			all = append(all, word)
		}
	}
	if at := slices.Index(all, none); at >= 0 {
		if len(all) > 1 {
			r.is(name, value, "none stands alone")
		}
		return nil
	}
	return all
}

// exporters are those of one kind. Where none is named it is OTLP if it is said where that goes.
func (r *reader) exporters(name, kind string) []string {
	if r.get(name) == "prometheus" {
		r.is(name, "prometheus", "the admin listener has /metrics for Prometheus: leave this variable out")
		return nil
	}
	missing := none
	if r.get(otlp+"ENDPOINT") != "" || r.get(otlp+kind+"ENDPOINT") != "" {
		missing = "otlp"
	}
	return r.list(name, missing, "otlp", "console", none)
}

func (r *reader) sampler() {
	name, arg := r.get("OTEL_TRACES_SAMPLER"), r.get("OTEL_TRACES_SAMPLER_ARG")
	known := []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}
	switch {
	case name == "":
	case !slices.Contains(known, strings.ToLower(name)):
		r.is("OTEL_TRACES_SAMPLER", name, "not known here; known are "+strings.Join(known, ", "))
	case strings.HasSuffix(strings.ToLower(name), "traceidratio") && arg != "":
		if part, err := strconv.ParseFloat(arg, 64); err != nil || !(part >= 0 && part <= 1) {
			r.is("OTEL_TRACES_SAMPLER_ARG", arg, "write a number from 0 to 1")
		}
	}
}

// otlp checks the variables of OTLP that have this beginning.
func (r *reader) otlp(prefix string) {
	if at := r.get(prefix + "ENDPOINT"); at != "" {
		if u, err := url.Parse(at); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			r.is(prefix+"ENDPOINT", unnamed(at), "write a URL such as http://127.0.0.1:4318")
		}
	}
	switch speaks := r.get(prefix + "PROTOCOL"); speaks {
	case "", "http/protobuf":
	case "grpc":
		r.is(prefix+"PROTOCOL", speaks, "gabion proxy sends http/protobuf alone, which collectors take at port 4318: write that, with its endpoint")
	default:
		r.is(prefix+"PROTOCOL", speaks, "write http/protobuf")
	}
	if packed := r.get(prefix + "COMPRESSION"); packed != "" && packed != none && packed != "gzip" {
		r.is(prefix+"COMPRESSION", packed, "write gzip or none")
	}
	r.number(prefix + "TIMEOUT")
	for pair := range strings.SplitSeq(r.get(prefix+"HEADERS"), ",") {
		if name, _, is := strings.Cut(pair, "="); strings.TrimSpace(pair) != "" && (!is || strings.TrimSpace(name) == "") {
			r.is(prefix+"HEADERS", "…", "write name=value, with commas between several") // its values are secrets
		}
	}
	r.file(prefix+"CERTIFICATE", true)
	r.file(prefix+"CLIENT_CERTIFICATE", true)
	r.file(prefix+"CLIENT_KEY", false)
}

func (r *reader) number(name string) {
	if value := r.get(name); value != "" {
		if n, err := strconv.Atoi(value); err != nil || n <= 0 {
			r.is(name, value, "write a whole number above 0")
		}
	}
}

func (r *reader) file(name string, certificate bool) {
	path := r.get(name)
	if path == "" {
		return
	}
	text, err := os.ReadFile(path)
	switch {
	case err != nil:
		r.is(name, path, err.Error())
	case certificate && !x509.NewCertPool().AppendCertsFromPEM(text):
		r.is(name, path, "it has no certificate in PEM")
	}
}

// unnamed takes the name and the password out of what should be a URL.
func unnamed(at string) string {
	if i := strings.LastIndexByte(at, '@'); i >= 0 {
		return "…" + at[i:]
	}
	return at
}
