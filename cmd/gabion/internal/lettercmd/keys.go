package lettercmd

import (
	"encoding/base64"
	"os"
	"strings"

	flag "github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/deadletter"
)

const keyHelp = `  --key-file FILE  the keys of payloads that are sealed, one on a line: its name
                   and its secret in base64. Without it, size, hash and contents
                   are those of what is stored
`

func keyFlag(set *flag.FlagSet, o *options) { set.StringVar(&o.keyFile, "key-file", "", "") }

// unsealed returns the store as those see it who have the keys in the file.
func unsealed(store deadletter.Store, file string) (deadletter.Store, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var keys []idempotency.SealKey
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 2 {
			return nil, operator.Wrongf("%s, line %d: it is a key's name and its secret in base64", file, i+1) // and not the line
		}
		secret, err := base64.StdEncoding.DecodeString(words[1])
		if err != nil {
			return nil, operator.Wrongf("%s, line %d: the secret is no base64", file, i+1)
		}
		keys = append(keys, idempotency.SealKey{Name: words[0], Secret: secret})
	}
	sealer, err := deadletter.NewSealer(keys...)
	if err != nil {
		return nil, operator.Wrongf("%s: %w", file, err)
	}
	return deadletter.Sealed(store, sealer), nil
}
