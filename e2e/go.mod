module github.com/gabion-go/gabion/e2e

go 1.26

replace github.com/gabion-go/gabion => ../

require (
	github.com/gabion-go/gabion v0.0.0-00010101000000-000000000000
	github.com/go-resty/resty/v2 v2.17.2
	github.com/stripe/stripe-go/v85 v85.0.0
	golang.org/x/net v0.43.0
)

require golang.org/x/text v0.28.0 // indirect
