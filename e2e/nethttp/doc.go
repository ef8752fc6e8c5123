// Package nethttp runs net/http's own tests with gabion under every http.Client and
// http.Transport in them.
package nethttp
