// Package gabioncaddy is a transport for Caddy's reverse_proxy: requests to a server go through a dependency's policy, with
// retries that are safe and within a budget, a breaker, limits and quotas. It registers the module http.reverse_proxy.transport.gabion.
//
//	reverse_proxy https://pay.example {
//		transport gabion {
//			config     gabion.yaml
//			dependency payments
//		}
//	}
//
// Build a Caddy with it: xcaddy build --with github.com/gabion-go/gabion/contrib/gabioncaddy, or import this package in a
// main package that calls caddycmd.Main.
//
// All sites that name one file share its breakers, budgets, limits and quotas, and so do the configurations before and after
// a reload of Caddy. The file is watched. Answers say what was done, as those of package gabionproxy do, on which this is built.
package gabioncaddy
