// Package gabionhttp stands in for the real one.
package gabionhttp

import "github.com/gabion-go/gabion/policy"

const HeaderKey = "Idempotency-Key"

type StatusError struct{ Code int }

func (*StatusError) Error() string { return "" }

func (*StatusError) Outcome() policy.Outcome { return policy.Outcome{} }
