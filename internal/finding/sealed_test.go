package finding

import "testing"

func TestPasswordsAreSealed(t *testing.T) {
	for _, c := range []struct{ fact, text, want string }{
		{"no URL", "timeout: {call: 1s} # a@b", "timeout: {call: 1s} # a@b"},
		{"a URL without a password", "{to: https://api.example/v1?a=b}", "{to: https://api.example/v1?a=b}"},
		{"a password", "store: postgres://gabion:sesame@db/x, # y", "store: postgres://gabion:xxxxxx@db/x, # y"},
		{"no user", `"redis://:ses%40me@cache"`, `"redis://:xxxxxxxx@cache"`},
		{"a token", "nats://sesame@queue/b", "nats://xxxxxx@queue/b"},
		{"a password that should have been escaped", "redis://u:s@s/m@cache", "redis://u:xxxxx@cache"},
		{"a parameter", "postgres://db/x?user=a&password=sesame&ssl_password=b&c=d", "postgres://db/x?user=a&password=xxxxxx&ssl_password=x&c=d"},
		{"both", "mysql://u:p@h/d?pass=q and redis://:r@h", "mysql://u:x@h/d?pass=x and redis://:x@h"},
		{"not ASCII", "redis://:ä€@h", "redis://:xx@h"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if got := Sealed(c.text); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
