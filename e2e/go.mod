module github.com/gabion-go/gabion/e2e

go 1.26

replace github.com/gabion-go/gabion => ../

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.22.1
	github.com/gabion-go/gabion v0.0.0-00010101000000-000000000000
	github.com/go-resty/resty/v2 v2.17.2
	github.com/stripe/stripe-go/v85 v85.0.0
	golang.org/x/net v0.43.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	golang.org/x/text v0.28.0 // indirect
)
