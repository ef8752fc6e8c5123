package grpcconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each mistake is found where it stands, with what to write instead. "differs" means that
// grpc-go takes it.
func TestMistakes(t *testing.T) {
	deep := `{"loadBalancingConfig": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}"
	for _, c := range []struct{ fact, text, want string }{
		{"C74: one attempt", retrying("maxAttempts", "1"), "1:81: retryPolicy.maxAttempts: 1 is too few = the first attempt counts too: write 2 to 5"},
		{"no attempts", retrying("maxAttempts", ""), "1:65: retryPolicy: maxAttempts is missing = the first attempt counts too: write 2 to 5"},
		{"null is missing", retrying("maxAttempts", "null"), "1:65: retryPolicy: maxAttempts is missing = the first attempt counts too: write 2 to 5"},
		{"attempts as a text", retrying("maxAttempts", `"4"`), `1:81: retryPolicy.maxAttempts wants a whole number, not the text "4" = write 4 without quotes`},
		{"attempts in parts", retrying("maxAttempts", "3.0"), "1:81: retryPolicy.maxAttempts wants a whole number, not 3.0 = write digits only, such as 3"},
		{"C74: no codes", retrying("retryableStatusCodes", ""), `1:65: retryPolicy: retryableStatusCodes is missing = write one such as "retryableStatusCodes": ["UNAVAILABLE"]`},
		{"C74: an empty list of codes", retrying("retryableStatusCodes", "[]"), `1:178: retryPolicy.retryableStatusCodes: no code is listed = write ["UNAVAILABLE"]`},
		{"a code that does not exist", retrying("retryableStatusCodes", `["UNAVAILABEL"]`), `1:179: retryPolicy.retryableStatusCodes: "UNAVAILABEL" is no gRPC code = did you mean UNAVAILABLE?`},
		{"a code far from all", retrying("retryableStatusCodes", `["zzz"]`), `1:179: retryPolicy.retryableStatusCodes: "zzz" is no gRPC code = codes are CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED`},
		{"a number that is no code", retrying("retryableStatusCodes", "[17]"), "1:179: retryPolicy.retryableStatusCodes: 17 is no gRPC code = write one from CANCELLED (1) to UNAUTHENTICATED (16), better by its name"},
		{"a number in quotes", retrying("retryableStatusCodes", `["14"]`), `1:179: retryPolicy.retryableStatusCodes: "14" is no gRPC code = write "UNAVAILABLE"`},
		{"a code alone", retrying("retryableStatusCodes", `"UNAVAILABLE"`), `1:178: retryPolicy.retryableStatusCodes wants a list, not the text "UNAVAILABLE" = write […]`},
		{"C74: a duration of zero", retrying("initialBackoff", `"0s"`), `1:102: retryPolicy.initialBackoff: "0s" is not above zero = write one such as "0.1s"`},
		{"zero without a unit", retrying("initialBackoff", `"0"`), `1:102: retryPolicy.initialBackoff: "0" has no unit = write "0s" for seconds`},
		{"no unit", retrying("initialBackoff", `"1"`), `1:102: retryPolicy.initialBackoff: "1" has no unit = write "1s" for seconds`},
		{"a number", retrying("initialBackoff", `0.5`), `1:102: retryPolicy.initialBackoff wants a duration, not 0.5 = write "0.5s" for seconds`},
		{"milliseconds", retrying("initialBackoff", `"100ms"`), `1:102: retryPolicy.initialBackoff: "100ms" is not a duration = gRPC writes "0.1s"`},
		{"minutes", retrying("initialBackoff", `"1m30s"`), `1:102: retryPolicy.initialBackoff: "1m30s" is not a duration = gRPC writes "90s"`},
		{"negative", retrying("initialBackoff", `"-1s"`), `1:102: retryPolicy.initialBackoff: "-1s" is not above zero = write one such as "0.1s"`},
		{"too long", retrying("initialBackoff", `"315576000001s"`), `1:102: retryPolicy.initialBackoff: "315576000001s" is too long = write what the call can wait for`},
		{"too fine", retrying("initialBackoff", `"0.0000000001s"`), `1:102: retryPolicy.initialBackoff: "0.0000000001s" has more than nine decimals = write whole nanoseconds`},
		{"no digits", retrying("initialBackoff", `".s"`), `1:102: retryPolicy.initialBackoff: ".s" is not a duration = write seconds, such as "0.1s"`},
		{"a sign in the middle", retrying("initialBackoff", `"1.+5s"`), `differs 1:102: retryPolicy.initialBackoff: "1.+5s" is not a duration = write seconds, such as "0.1s"`},
		{"no growth at all", retrying("backoffMultiplier", "0"), "1:151: retryPolicy.backoffMultiplier: 0 is not above zero = write one such as 2"},
		{"growth beyond all numbers", retrying("backoffMultiplier", "1e999"), "1:151: retryPolicy.backoffMultiplier wants a number, not 1e999 = write one such as 2"},
		{"no call succeeds", method(`"timeout": "0s"`), `differs 1:61: timeout: "0s" lets no call succeed = write how long a call may take, or leave it out`},
		{"a negative timeout", method(`"timeout": "-1s"`), `differs 1:61: timeout: "-1s" is negative = grpc-go ignores it: leave it out`},
		{"waitForReady in quotes", method(`"waitForReady": "true"`), `1:66: waitForReady wants true or false, not the text "true" = write true or false`},
		{"a size in parts", method(`"maxRequestMessageBytes": 1.5`), "1:76: maxRequestMessageBytes wants a whole number, not 1.5 = write digits only, such as 3"},
		{"a key twice", `{"methodConfig": [], "methodConfig": []}`, "differs 1:22: service config: methodConfig is there twice, first in 1:2 = JSON leaves open which one counts: remove one"},
		{"a method without its service", `{"methodConfig": [{"name": [{"method": "Get"}]}]}`, `1:29: name: a method without its service = write {"service": "package.Service", "method": "Get"}`},
		{"a method twice", "{\"methodConfig\": [{\"name\": [{\"service\": \"a\"}]},\n{\"name\": [{\"service\": \"a\"}]}]}", "2:11: name: /a/*: named twice, first in 1:29 = name a method once"},
		{"a name that is misspelled would be all methods", `{"methodConfig": [{"name": [{"servce": "a"}]}]}`, "differs 1:30: name: unknown key \"servce\" = did you mean service?"},
		{"null is no name", `{"methodConfig": [{"name": [null]}]}`, "differs 1:29: null is no name = write {} for all methods"},
		{"a name alone", `{"methodConfig": [{"name": {}}]}`, "1:28: name wants a list, not an object = write […]"},
		{"a service that is a number", `{"methodConfig": [{"name": [{"service": 3}]}]}`, `1:41: name.service wants a text, not 3 = write "…"`},
		{"too few tokens", `{"methodConfig": [], "retryThrottling": {"maxTokens": 0, "tokenRatio": -1}}`,
			"1:55: retryThrottling.maxTokens: 0 is not above zero = write one such as 100\n1:72: retryThrottling.tokenRatio: -1 is not above zero = write one such as 0.1"},
		{"too many tokens", `{"methodConfig": [], "retryThrottling": {"maxTokens": 1001}}`,
			"1:41: retryThrottling: tokenRatio is missing = write one such as \"tokenRatio\": 0.1\n1:55: retryThrottling.maxTokens: 1001 is more than 1000 = write at most 1000"},
		{"grpc-go does not judge a throttling without methods", `{"retryThrottling": {"maxTokens": 0, "tokenRatio": 1}}`, "differs 1:35: retryThrottling.maxTokens: 0 is not above zero = write one such as 100"},
		{"nor a retryPolicy without a name", `{"methodConfig": [{"retryPolicy": {"maxAttempts": 1, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [14]}}]}`,
			"differs 1:51: retryPolicy.maxAttempts: 1 is too few = the first attempt counts too: write 2 to 5"},
		{"retries and hedges", strings.Replace(retrying(), `"retryPolicy"`, `"hedgingPolicy": {"maxAttempts": 2}, "retryPolicy"`, 1), "differs 1:67: methodConfig: hedgingPolicy and retryPolicy = keep one of the two"},
		{"one hedged attempt", method(`"hedgingPolicy": {"maxAttempts": 1, "hedgingDelay": "-1s", "nonFatalStatusCodes": ["UNAVAILABL"]}`),
			"differs 1:83: hedgingPolicy.maxAttempts: 1 is too few = the first attempt counts too: write 2 to 5\n" +
				`differs 1:102: hedgingPolicy.hedgingDelay: "-1s" is negative = write one such as "0.5s", or "0s" for all at once` + "\n" +
				`differs 1:133: hedgingPolicy.nonFatalStatusCodes: "UNAVAILABL" is no gRPC code = did you mean UNAVAILABLE?`},
		{"no policy of balancing", `{"loadBalancingConfig": []}`, `1:25: loadBalancingConfig has no policy = write one such as [{"round_robin": {}}], or leave it out`},
		{"a policy of balancing by its name", `{"loadBalancingConfig": ["round_robin"]}`, `1:26: loadBalancingConfig wants objects, not the text "round_robin" = write {"round_robin": {}}`},
		{"no object", `[]`, "1:1: service config wants an object, not a list = write {…}; its keys are methodConfig, retryThrottling, loadBalancingConfig, loadBalancingPolicy, healthCheckConfig"},
		{"null", `null`, "differs 1:1: null is no service config = write {} for a config that says nothing"},
		{"an empty file", " \n", "1:1: the file is empty = write {} for a config that says nothing"},
		{"a file that is cut off", "{\"methodConfig\": [\n  {\"name\": [", "2:13: the file ends here, in the middle of a value = close the [ of 2:12; is the file cut off?"},
		{"a comma too much", "{\"methodConfig\": [{},\n]}", "1:21: a comma before ] = JSON has no comma after the last value, other than YAML: remove it"},
		{"a comma too few", `{"methodConfig": [{} {}]}`, "1:22: no comma before the next value = write a comma, or ] if this is the end"},
		{"a comment", "{\n  // nothing\n}", "2:3: a comment = JSON has none: remove it"},
		{"YAML", "methodConfig:\n  - name: []", `1:1: methodConfig stands without quotes = JSON wants double quotes: "methodConfig"`},
		{"a key without quotes", `{methodConfig: []}`, `1:2: a key without quotes = JSON wants double quotes: "methodConfig"`},
		{"single quotes", `{'methodConfig': []}`, "1:2: a key in single quotes = JSON wants double quotes"},
		{"no colon", `{"methodConfig" []}`, `1:17: no colon after the key "methodConfig" = write "key": value`},
		{"something more", `{} {}`, "1:4: something follows the end of the config = remove it, or look for a bracket that closes too early"},
		{"zeros in front", `{"retryThrottling": {"maxTokens": 010}}`, "1:35: 010 is not a number of JSON = write no zero in front"},
		{"another language's truth", `{"methodConfig": None}`, `1:18: None stands without quotes = JSON wants double quotes: "None"`},
		{"a text that does not end", "{\"methodConfig\": \"x\n}", `1:18: a string does not end in its line = close it with "`},
		{"a tab in a text", "{\"methodConfig\": \"x\t\"}", `1:20: a control character, 0x09, in a string = write \u0009`},
		{"half an escape", `{"methodConfig": "\u12"}`, `1:19: \u without four hexadecimal digits = write one such as \u00e9`},
		{"an unknown escape", `{"methodConfig": "\x"}`, `1:19: a backslash that means nothing = write \\ for a backslash`},
		{"a byte order mark", "\ufeff{}", "1:1: a byte order mark = save the file as UTF-8 without one"},
		{"not UTF-8", "{\"a\": \"\xff\"}", "differs 1:1: not UTF-8 = "},
		{"nested deeply", deep, "differs 1:124: brackets are nested too deeply = nest at most 100"},
		{"a large file", `{"x": "` + strings.Repeat("x", 1<<20) + `"}`, "differs 1:1: the file has 1048585 bytes, and a service config at most 1 MiB = "},
		{"columns count characters", `{"é": 1, "methodConfig": {}}`, "1:26: methodConfig wants a list, not an object = write […]"},
	} {
		_, found := Parse("sc.json", []byte(c.text), Options{})
		if got := spell(found); got != c.want {
			t.Errorf("%s:\n%s\n%s, want\n%s", c.fact, c.text[:min(len(c.text), 300)], got, c.want)
		}
	}
}

func spell(found []Finding) string {
	lines := make([]string, len(found))
	for i, f := range found {
		lines[i] = fmt.Sprintf("%d:%d: %s = %s", f.Line, f.Col, f.Reason, f.Proposal)
		if f.Differs {
			lines[i] = "differs " + lines[i]
		}
	}
	return strings.Join(lines, "\n")
}

func TestAllMistakesAtOnceWithTheirCaret(t *testing.T) {
	_, found := Parse("sc.json", []byte("{\"methodConfig\": [\r\n  {\"name\": [{\"service\": 3}],\r\n   \"timeout\": \"1\",\r\n   \"retryPolicy\": {\"maxAttempts\": 1}}]}"), Options{})
	var got strings.Builder
	for _, f := range found {
		got.WriteString(strings.ReplaceAll(f.Error(), " \n", "\n") + "\n")
	}
	for _, want := range []string{
		"sc.json:2:25: name.service wants a text, not 3\n  |   {\"name\": [{\"service\": 3}],\n  |                         ^ write \"…\"\n",
		"sc.json:3:15: timeout: \"1\" has no unit\n  |    \"timeout\": \"1\",\n  |               ^ write \"1s\" for seconds\n",
		"sc.json:4:19: retryPolicy: initialBackoff is missing\n",
		"sc.json:4:35: retryPolicy.maxAttempts: 1 is too few\n",
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no %s in\n%s", want, got.String())
		}
	}
}

// What gRPC ignores is a note: configs are written for clients in many languages.
func TestUnknownKeysAreNotes(t *testing.T) {
	c := parsed(t, `{"methodConfig": [{"name": [{}], "retryPolcy": {"x": 1}, "Timeout": "1s"}], "zzz": 1}`, Options{})
	noted(t, "misspelled", c.Notes, `methodConfig: gRPC ignores the key "retryPolcy", and so does gabion`)
	noted(t, "unknown", c.Notes, `service config: gRPC ignores the key "zzz"`)
	noted(t, "another case", c.Notes, `grpc-go takes "Timeout" for timeout, other languages do not`)
	if c.Methods[0].Policy.Timeout.Call != time.Second {
		t.Error("the key in another case was not read")
	}
	for _, n := range c.Notes {
		if strings.Contains(n.Reason, "retryPolcy") && n.Proposal != "did you mean retryPolicy?" {
			t.Error(n.Proposal)
		}
	}
}

// A megabyte of mistakes is said in a hundred findings, and soon.
func TestAMegabyteOfMistakes(t *testing.T) {
	text := `{"methodConfig": [` + strings.Repeat("3,", (1<<20)/2-20) + "3]}"
	_, found := Parse("sc.json", []byte(text), Options{})
	if len(found) == 0 || len(found) > maxFindings {
		t.Errorf("%d findings", len(found))
	}
	for _, f := range found {
		if len(f.Error()) > 500 {
			t.Fatalf("a finding of %d bytes", len(f.Error()))
		}
	}
}

// The same name again and again is said a hundred times, and soon.
func TestAMegabyteOfNamesThatAreThereTwice(t *testing.T) {
	text := `{"methodConfig": [{"name": [{}` + strings.Repeat(",{}", (1<<20)/3-20) + "]}]}"
	if _, found := Parse("sc.json", []byte(text), Options{}); len(found) != maxFindings {
		t.Errorf("%d findings", len(found))
	}
}

// No text makes the reader panic; each finding has a place in the file, and each policy is one.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "{}", retrying(), retrying("maxAttempts", `"x"`), method(`"timeout": "0s"`), method(`"hedgingPolicy": {"maxAttempts": 3}`),
		`{"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}, "loadBalancingConfig": [{"round_robin": {}}]}`, "{\"a\": [1, 2,\r\n]}", `{"a": "\ud800"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, o := range []Options{{}, {Exact: true}} {
			c, found := Parse("sc.json", []byte(text), o)
			if (c == nil) != (len(found) > 0) {
				t.Fatalf("%v, %v", c, found)
			}
			if c != nil {
				found = c.Notes
				for _, m := range c.Methods {
					if err := m.Policy.Validate(); err != nil {
						t.Errorf("%q: %v", text, err)
					}
				}
				if again, wrong := Parse("rest.json", []byte(c.Rest), o); c.Rest != "" && (again == nil || again.Rest != c.Rest) {
					t.Errorf("%q: what stays gRPC's is no config: %s: %v", text, c.Rest, wrong)
				}
			}
			for _, f := range found {
				if f.Line < 1 || f.Line > lines || f.Col < 1 || f.Reason == "" {
					t.Errorf("%q: %+v", text, f)
				}
				_ = f.Error()
			}
		}
	})
}
